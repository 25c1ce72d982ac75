"""What is compared, as processes: an engine, a Redis, and three replicas of one system."""

import asyncio
import hashlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parents[2]
KEY = "key-of-the-only-tenant"
BOUND = 120.0

STREAMGATE = """
listen: {{proxy: "127.0.0.1:{port}", admin: "127.0.0.1:0"}}
pools:
  - {{name: p, models: ["*"], endpoints: ["127.0.0.1:{engine}"]}}
tenants:
  - {{id: a, api_keys: ["sha256:{hash}"], max_in_flight: {cap}}}
quota: {{store: redis, redis: {{url: "redis://127.0.0.1:{redis}/0"}}}}
"""

LITELLM = """
model_list:
- model_name: sim
  litellm_params: {{model: openai/sim, api_base: "http://127.0.0.1:{engine}/v1", api_key: k, max_retries: 0}}
litellm_settings:
  num_retries: 0
  cache: true
  cache_params: {{type: redis, host: 127.0.0.1, port: {redis}, supported_call_types: []}}
general_settings: {{custom_auth: custom_auth.user_auth, telemetry: false}}
"""

# Every caller is the one tenant; its cap is given as LiteLLM's documentation says.
LITELLM_AUTH = """
from fastapi import Request
from litellm.proxy._types import UserAPIKeyAuth

async def user_auth(request: Request, api_key: str) -> UserAPIKeyAuth:
    return UserAPIKeyAuth(api_key="sk-a", user_id="a", max_parallel_requests={cap})
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Relay:
    """In front of a replica's Redis; can swallow answers."""

    def __init__(self, redis):
        self.redis, self.deaf = redis, False

    async def start(self):
        self.server = await asyncio.start_server(self.carry, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]

    async def carry(self, reader, writer):
        try:
            back, there = await asyncio.open_connection("127.0.0.1", self.redis)
            await asyncio.gather(self.pump(reader, there, False), self.pump(back, writer, True))
        except (OSError, asyncio.CancelledError):
            pass  # The connection or the comparison has ended.
        finally:
            writer.close()

    async def pump(self, source, sink, answers):
        while data := await source.read(65536):
            if not (answers and self.deaf):
                sink.write(data)
                await sink.drain()
        sink.close()


class System:
    """Three replicas that share a cap, their engine and their Redis."""

    def __init__(self, kind, cap, replicas=3):
        self.kind, self.cap, self.count = kind, cap, replicas
        self.engine, self.redis = free_port(), free_port()
        self.processes, self.relays, self.ports, self.replicas = [], [], [], []
        self.directory = tempfile.TemporaryDirectory()
        # One client: making one costs more than a request.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        self.http = httpx.AsyncClient(timeout=60, limits=limits)

    def spawn(self, name, command, **environment):
        log = open(Path(self.directory.name) / f"{name}.log", "w")
        process = subprocess.Popen(
            command, stdout=log, stderr=log, cwd=self.directory.name,
            env={**os.environ, **environment})
        self.processes.append(process)
        return process

    async def __aenter__(self):
        target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
        self.spawn("redis", ["redis-server", "--port", str(self.redis), "--bind", "127.0.0.1", "--save", ""])
        self.spawn("engine", [
            target / "streamgate-loadtests", "engine", "--listen", f"127.0.0.1:{self.engine}",
            "--profile", "instant", "--token-interval", "20ms"])
        await self.answers(f"http://127.0.0.1:{self.engine}/health")
        for replica in range(self.count):
            relay = Relay(self.redis)
            await relay.start()
            port = free_port()
            self.relays.append(relay)
            self.ports.append(port)
            self.replicas.append(self.replica(replica, port, relay.port, target))
        probe = "/livez" if self.kind == "streamgate" else "/health/liveliness"
        for port in self.ports:
            await self.answers(f"http://127.0.0.1:{port}{probe}")
        # Until a new memory has been learned, and every replica has served once.
        for replica in range(self.count):
            while (await self.ask(replica, 1))[0] != "complete":
                await asyncio.sleep(0.1)
        await asyncio.sleep(1)
        await self.reset()
        return self

    async def __aexit__(self, *_):
        await self.http.aclose()
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()
        for relay in self.relays:
            relay.server.close()
        self.directory.cleanup()

    def replica(self, number, port, redis, target):
        directory = Path(self.directory.name) / f"r{number}"
        directory.mkdir()
        values = {"port": port, "engine": self.engine, "redis": redis, "cap": self.cap,
                  "hash": hashlib.sha256(KEY.encode()).hexdigest()}
        if self.kind == "streamgate":
            (directory / "config.yaml").write_text(STREAMGATE.format(**values))
            command = [target / "streamgate", "serve", "--config", directory / "config.yaml"]
            return self.spawn(f"r{number}", command)
        (directory / "config.yaml").write_text(LITELLM.format(**values))
        (directory / "custom_auth.py").write_text(LITELLM_AUTH.format(**values))
        command = [Path(sys.executable).parent / "litellm", "--config", directory / "config.yaml",
                   "--host", "127.0.0.1", "--port", str(port), "--telemetry", "False"]
        return self.spawn(f"r{number}", command, LITELLM_LOCAL_MODEL_COST_MAP="True",
                          LITELLM_MASTER_KEY="sk-compare-only", LITELLM_LOG="ERROR")

    async def answers(self, url):
        end = time.monotonic() + BOUND
        while True:
            try:
                if (await self.http.get(url)).status_code < 500:
                    return
            except httpx.HTTPError:
                pass
            assert time.monotonic() < end, f"{url} does not answer; see {self.directory.name}"
            await asyncio.sleep(0.1)

    async def stats(self):
        return (await self.http.get(f"http://127.0.0.1:{self.engine}/sim/stats")).json()

    async def reset(self):
        await self.http.post(f"http://127.0.0.1:{self.engine}/sim/reset")

    async def runs(self, count):
        end = time.monotonic() + BOUND
        while (await self.stats())["in_flight"] != count:
            assert time.monotonic() < end, f"{count} run: {await self.stats()}"
            await asyncio.sleep(0.02)

    async def ask(self, replica, tokens, begun=None):
        """One stream to its end; what became of it, and the seconds to its first byte."""
        body = {"model": "sim", "stream": True, "max_tokens": tokens,
                "messages": [{"role": "user", "content": "hello"}]}
        headers = {"authorization": f"Bearer {KEY}"}
        url = f"http://127.0.0.1:{self.ports[replica]}/v1/chat/completions"
        start = time.monotonic()
        try:
            async with self.http.stream("POST", url, json=body, headers=headers) as answer:
                took = time.monotonic() - start
                if answer.status_code == 200 and begun is not None:
                    begun.set()
                text = ""
                async for piece in answer.aiter_text():
                    text = (text + piece)[-200:]
            if answer.status_code == 200:
                return ("complete" if "[DONE]" in text else "broken"), took
            return str(answer.status_code), took
        except (httpx.HTTPError, OSError):
            return "no answer", time.monotonic() - start

    async def hold(self, replica):
        """A stream that runs until it is cancelled; asked for until it is admitted."""
        end = time.monotonic() + BOUND
        while time.monotonic() < end:
            begun = asyncio.Event()
            task = asyncio.create_task(self.ask(replica, 100_000, begun))
            waiting = asyncio.create_task(begun.wait())
            await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            if begun.is_set():
                return task
            await asyncio.sleep(0.05)
        raise AssertionError("a stream is admitted")

    def kill(self, replica):
        self.replicas[replica].send_signal(signal.SIGKILL)

    def flush(self):
        subprocess.run(["redis-cli", "-p", str(self.redis), "FLUSHALL"], check=True,
                       stdout=subprocess.DEVNULL)
