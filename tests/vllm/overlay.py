"""What the shipped overlay says: the engines' arguments, and the program of their preStop hook."""

import pathlib
import re
import subprocess
import sys

import yaml

OVERLAY = pathlib.Path(__file__).resolve().parents[2] / "k8s/overlays/vllm/vllm.yaml"


class Recipe:
    def __init__(self):
        pods = yaml.safe_load(OVERLAY.read_text())["spec"]["template"]["spec"]
        (engine,) = pods["containers"]
        self.grace = pods["terminationGracePeriodSeconds"]
        command = engine["lifecycle"]["preStop"]["exec"]["command"]
        assert command[:2] == ["python3", "-c"], command
        self.program = command[2]
        # What shutdown depends on; the model and the port are this machine's.
        self.arguments = [
            argument for argument in engine["args"]
            if argument.startswith(("--shutdown-timeout", "--api-server-count"))
        ]
        assert len(self.arguments) == 2, engine["args"]
        self.shutdown_timeout = int(re.search(r"--shutdown-timeout=(\d+)", str(engine["args"]))[1])

    def pre_stop(self, admin, token_file, endpoint):
        """Runs the hook as the kubelet would, with the addresses of this machine in it. It says
        nothing unless there was no drain."""
        program = self.program
        for shipped, here in [("streamgate-admin:9180", admin),
                              ("/etc/streamgate-admin/token", str(token_file))]:
            assert shipped in program, shipped
            program = program.replace(shipped, here)
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                              env={"STREAMGATE_ENDPOINT": endpoint}, check=True)
        assert done.stdout == "", f"the hook did not drain: {done.stdout}"
