"""The processes of the test: vLLM servers and Streamgate. Each is a session of its own, so that
whatever it started ends with it."""

import contextlib
import hashlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import time
import urllib.request

# Bounds for liveness alone, seconds: a loaded machine takes its time.
START, STOP, EVENT = 600, 300, 300

SERVE = pathlib.Path(__file__).resolve().parents[2] / "loadtests/vllm/serve.sh"


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def until(what, condition, bound=EVENT, pause=0.1):
    """Waits until `condition` gives something true, and returns that."""
    end = time.monotonic() + bound
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"not within {bound} s: {what}"
        time.sleep(pause)


def get(url, **headers):
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60) as answer:
        return answer.read().decode()


class Process:
    """One process, its log, and a context that ends it."""

    def __init__(self, command, log, env=None):
        self.log = pathlib.Path(log)
        with self.log.open("ab") as file:
            self.child = subprocess.Popen(command, stdout=file, stderr=file,
                                          stdin=subprocess.DEVNULL, start_new_session=True,
                                          env={**os.environ, **(env or {})})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.child.pid, signal.SIGKILL)
        self.child.wait()

    def alive(self):
        return self.child.poll() is None

    def answers(self, url):
        assert self.alive(), f"ended at its start:\n{self.tail()}"
        with contextlib.suppress(OSError):
            get(url)
            return True

    def terminate(self):
        """SIGTERM to the main process, as a kubelet does; when."""
        self.child.send_signal(signal.SIGTERM)
        return time.monotonic()

    def exited(self, bound=STOP):
        """Waits for the end; when."""
        self.child.wait(timeout=bound)
        return time.monotonic()

    def tail(self):
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-40:])


class Engine(Process):
    """A vLLM server on loopback."""

    def __init__(self, venv, port, log, arguments):
        self.port, self.address = port, f"127.0.0.1:{port}"
        # Prompts that were seen before would show in the usage.
        command = [str(SERVE), str(venv), str(port), "--no-enable-prefix-caching", *arguments]
        super().__init__(command, log, {"VLLM_WORKER_SHUTDOWN_TIMEOUT_SECONDS": "1"})

    def wait_ready(self):
        until(f"vLLM at {self.address} serves",
              lambda: self.answers(f"http://{self.address}/health"), START, 0.5)
        return self

    def metric(self, name):
        """The sum of a metric over its labels."""
        lines = get(f"http://{self.address}/metrics").splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines
                   if re.match(rf"{re.escape(name)}[{{ ]", line))

    def running(self):
        return self.metric("vllm:num_requests_running") + self.metric("vllm:num_requests_waiting")


class Gate(Process):
    """Streamgate in front of some addresses."""

    KEY = "key-of-the-vllm-test"

    def __init__(self, binary, folder, name, engines, shutdown_timeout, cut_margin,
                 stream_idle=300):
        self.binary = binary
        port, admin = free_port(), free_port()
        self.address, self.admin = f"127.0.0.1:{port}", f"127.0.0.1:{admin}"
        self.token_file = folder / f"{name}.token"
        self.token_file.write_text("token-of-the-vllm-test\n")
        config = {
            "listen": {"proxy": self.address, "admin": self.admin},
            "admin": {"token_file": str(self.token_file)},
            "log": {"level": "info"},
            "pools": [{
                "name": "vllm", "models": ["*"], "endpoints": engines,
                "engine_shutdown_timeout": f"{shutdown_timeout}s",
                "health": {"timeout": "10s"},
            }],
            "tenants": [{
                "id": "main", "max_in_flight": 64,
                "api_keys": ["sha256:" + hashlib.sha256(self.KEY.encode()).hexdigest()],
            }],
            # A busy processor is slow and not stuck.
            "timeouts": {"first_byte": "300s", "stream_idle": f"{stream_idle}s"},
            "drain": {"cut_margin": f"{cut_margin}s"},
        }
        # JSON is YAML.
        file = folder / f"{name}.yaml"
        file.write_text(json.dumps(config))
        super().__init__([binary, "serve", "--config", str(file)], folder / f"{name}.log")

    def wait_ready(self):
        until("Streamgate is ready", lambda: self.answers(f"http://{self.admin}/readyz"), START)
        return self

    def endpoint(self, address):
        """State and requests in flight of one endpoint."""
        state = json.loads(get(f"http://{self.admin}/api/v1/state"))
        (found,) = [one for one in state["pools"][0]["endpoints"] if one["endpoint"] == address]
        return found["state"], found["in_flight"]

    def drain(self, address, wait):
        """`streamgate drain --endpoint`: its exit code."""
        command = [self.binary, "drain", "--admin", f"http://{self.admin}",
                   "--endpoint", address, "--wait", wait]
        return subprocess.run(command, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL).returncode

    def outcomes(self):
        """Requests by outcome."""
        pattern = r'streamgate_requests_total\{[^}]*outcome="(\w+)"[^}]*\} (\d+)'
        counts = {}
        for outcome, count in re.findall(pattern, get(f"http://{self.admin}/metrics")):
            counts[outcome] = counts.get(outcome, 0) + int(count)
        return {outcome: count for outcome, count in counts.items() if count}
