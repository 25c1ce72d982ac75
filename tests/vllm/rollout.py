"""Real vLLM behind Streamgate.

1. Two engines are drained and replaced one after the other, by the recipe of k8s/overlays/vllm,
   under streams: none breaks, and each says what an undisturbed one says.
2. The same without a drain, and with vLLM's default `--shutdown-timeout 0`, for contrast.
3. Streams longer than the shutdown timeout: Streamgate tells every client, and the engine exits in
   time; without Streamgate it hangs.

Prints its figures. Exit code 0: everything held.
"""

import argparse
import contextlib
import pathlib
import signal
import sys
import tempfile
import threading
import time

from overlay import Recipe
from processes import EVENT, Engine, Gate, free_port, until
from streams import Request, Stream

LANES = 6
# Part 3, seconds: what the drain call waits, the engine's timeout, and how long before it
# Streamgate cuts.
WAIT, TIMEOUT, MARGIN = 4, 8, 3
# A stream of which nothing is heard for so long is taken for one that hangs, seconds.
SILENCE = 20
# vLLM may take so long from its last stream to its exit; the budget of `streamgate check`.
TEARDOWN = 20
WORDS = "w{:03d} w{:03d} w{:03d}"


def requests():
    """Of every API two, of different lengths."""
    apis = ["completions", "chat", "messages", "responses"]
    return [Request(api, WORDS.format(n, n + 40, n + 80), 150 + 40 * n)
            for n, api in enumerate(apis * 2)]


def long_requests():
    """As long as the model can: tens of seconds when several run."""
    return [Request("completions", WORDS.format(n, n, n), 3800) for n in range(4)]


def running(streams):
    """Waits until each has said something, and sees to it that none has ended."""
    for stream in streams:
        assert stream.begun.wait(EVENT) and stream.is_alive(), stream.body


def say(text):
    print(text, flush=True)


class Lanes:
    """Clients that ask for one stream after the other until they are told to stop."""

    def __init__(self, gate, expected):
        self.gate, self.expected = gate, expected
        self.over = threading.Event()
        self.done, self.running = [], {}
        self.threads = [threading.Thread(target=self.run, args=(n,)) for n in range(LANES)]
        for thread in self.threads:
            thread.start()

    def run(self, lane):
        all_requests = list(self.expected)
        turn = lane
        while not self.over.is_set():
            stream = Stream(self.gate.address, all_requests[turn % len(all_requests)], Gate.KEY)
            self.running[lane] = stream
            stream.join()
            self.done.append(stream)
            turn += 1

    def stop(self):
        self.over.set()
        for thread in self.threads:
            thread.join()

    def begun(self):
        """Streams that have said something and not ended."""
        return sum(stream.is_alive() and stream.begun.is_set()
                   for stream in list(self.running.values()))

    def differing(self):
        return [stream for stream in self.done
                if stream.ended() != "whole" or stream.said() != self.expected[stream.request]]


def undisturbed(gate):
    """What each request says when nothing happens."""
    streams = [Stream(gate.address, request, Gate.KEY) for request in requests()]
    for stream in streams:
        stream.join()
        assert stream.ended() == "whole", (stream.status, stream.body[-500:])
    return {stream.request: stream.said() for stream in streams}


def replace(stack, args, gate, recipe, lanes, old, arguments):
    """One engine by the recipe; its successor at the same address."""
    def busy():
        return gate.endpoint(old.address)[1] >= 2 and lanes.begun() >= LANES - 1
    until("streams run on the engine that goes", busy)
    streams = gate.endpoint(old.address)[1]
    start = time.monotonic()
    recipe.pre_stop(gate.admin, gate.token_file, old.address)
    drained = time.monotonic()
    assert gate.endpoint(old.address)[1] == 0, "the hook returned before the streams ended"
    assert old.running() == 0, "the engine still works after the drain"
    term = old.terminate()
    gone = old.exited()
    new = stack.enter_context(Engine(args.venv, old.port, old.log, arguments)).wait_ready()
    ready = time.monotonic()
    until("it is chosen again", lambda: gate.endpoint(new.address)[0] == "ready")
    until("it has served", lambda: new.metric("vllm:request_success_total") >= 2)
    say(f"  {old.address}: {streams} streams ran there; drained after {drained - start:.1f} s, "
        f"exit {gone - term:.1f} s after SIGTERM, successor ready {ready - gone:.0f} s later")
    assert gone - start < recipe.grace, "longer than the grace period"
    return new, gone - term


def rollout(stack, args, folder, recipe):
    """Part 1; the engines that it leaves, which run with the arguments of the parts to come, and
    the longest exit of one that had nothing left to do."""
    say(f"1. Rollout by the overlay's recipe ({' '.join(recipe.arguments)})")
    begun = time.monotonic()
    engines = [stack.enter_context(
        Engine(args.venv, free_port(), folder / f"vllm-{n}.log", recipe.arguments))
        for n in range(2)]
    for engine in engines:
        engine.wait_ready()
    say(f"  two engines serve after {time.monotonic() - begun:.0f} s")
    addresses = [engine.address for engine in engines]
    gate = Gate(args.streamgate, folder, "rollout", addresses, recipe.shutdown_timeout, 5)
    with gate.wait_ready():
        expected = undisturbed(gate)
        lanes = Lanes(gate, expected)
        try:
            arguments = [["--shutdown-timeout=0"], [f"--shutdown-timeout={TIMEOUT}"]]
            replaced = [replace(stack, args, gate, recipe, lanes, old, new)
                        for old, new in zip(engines, arguments)]
        finally:
            lanes.stop()
        differing, outcomes = lanes.differing(), gate.outcomes()
    say(f"  {len(lanes.done)} streams of four APIs, {len(differing)} broken or different from the "
        f"undisturbed run; outcomes {outcomes}")
    for stream in differing:
        say(f"    {stream.request.api}: {stream.ended()}, {stream.body[-300:]!r}")
    assert not differing
    assert outcomes == {"complete": len(lanes.done) + len(expected)}, outcomes
    return [engine for engine, _ in replaced], max(took for _, took in replaced)


def contrast(args, folder, engine):
    """Part 2: SIGTERM without a drain. What vLLM does to its streams then is a matter of luck:
    it may say that it aborts them, break off, or keep them open without a word."""
    say("2. No drain, --shutdown-timeout 0 (vLLM's default)")
    requests = long_requests()
    gate = Gate(args.streamgate, folder, "contrast", [engine.address], 90, 5, stream_idle=SILENCE)
    with gate.wait_ready():
        direct = [Stream(engine.address, request) for request in requests]
        through = [Stream(gate.address, request, Gate.KEY) for request in requests]
        running(direct + through)
        term = engine.terminate()
        for stream in through:
            stream.join(EVENT)
            assert not stream.is_alive(), "nobody told this client"
        until("each stream ends or hangs", lambda: not any(
            stream.is_alive() and time.monotonic() - max(stream.last_byte, term) < SILENCE
            for stream in direct))
        # Who hangs is alone now.
        ends = {"straight to vLLM": [stream.ended() for stream in direct],
                "through Streamgate": [stream.ended() for stream in through]}
        for stream in direct:
            stream.leave()
        gone = engine.exited()
        outcomes = gate.outcomes()
    for name, streams in [("straight to vLLM", direct), ("through Streamgate", through)]:
        counts = ", ".join(f"{ends[name].count(end)} {end}" for end in sorted(set(ends[name])))
        codes = sorted({str(stream.error()) for stream in streams if stream.error()})
        last = max(stream.last_byte for stream in streams) - term
        say(f"  {name}: {len(streams)} streams truncated: {counts} {' '.join(codes)}; last byte "
            f"{last:.1f} s after SIGTERM")
    say(f"  exit {gone - term:.1f} s after SIGTERM; outcomes {outcomes}")
    for stream in direct + through:
        assert len(stream.text().split()) < stream.request.tokens, "not truncated"
    assert "whole" not in ends["straight to vLLM"], ends
    assert ends["through Streamgate"] == ["told"] * len(through), ends
    assert sum(outcomes.values()) == len(through) and "complete" not in outcomes, outcomes


def deadline(args, folder, engine, idle_exit):
    """Part 3: streams that outlive the shutdown timeout."""
    say(f"3. Streams longer than the timeout: drain wait {WAIT} s, --shutdown-timeout {TIMEOUT}, "
        f"drain.cut_margin {MARGIN} s")
    long = long_requests()
    gate = Gate(args.streamgate, folder, "deadline", [engine.address], TIMEOUT, MARGIN)
    with gate.wait_ready():
        streams = [Stream(gate.address, request, Gate.KEY) for request in long]
        running(streams)
        start = time.monotonic()
        code = gate.drain(engine.address, f"{WAIT}s")
        term = engine.terminate()
        for stream in streams:
            stream.join(EVENT)
            assert not stream.is_alive(), "nobody told this client"
        gone = engine.exited()
        outcomes = gate.outcomes()
    told = [(stream.ended(), stream.error(), stream.clean) for stream in streams]
    last = max(stream.last_byte for stream in streams)
    say(f"  `streamgate drain` exits with {code} after {term - start:.1f} s; then SIGTERM")
    say(f"  {len(streams)} streams end {last - start:.1f} s after the order ({last - term:.1f} s "
        f"after SIGTERM): {set(told)}; outcomes {outcomes}")
    say(f"  vLLM has exited {gone - term:.1f} s after SIGTERM, {gone - start:.1f} s after the "
        f"order; budget {WAIT + TIMEOUT + TEARDOWN} s")
    assert code == 2, "the wait was over with streams running"
    assert told == [("told", "draining", False)] * len(streams), told
    assert outcomes == {"drain_cut": len(streams)}, outcomes
    # The budget grants the teardown of a machine that is not overloaded.
    assert gone - start <= WAIT + TIMEOUT + max(TEARDOWN, 3 * idle_exit), "not in time"


def hang(engine):
    """Part 3 without Streamgate: vLLM waits for its clients for ever."""
    streams = [Stream(engine.address, request) for request in long_requests()]
    running(streams)
    term = engine.terminate()
    last = lambda: max(stream.last_byte for stream in streams)
    until("vLLM falls silent", lambda: time.monotonic() - max(last(), term) > SILENCE)
    silent, waited = last() - term, time.monotonic() - term
    assert engine.alive() and all(stream.is_alive() for stream in streams), "it does not hang"
    assert not any(stream.error() for stream in streams)
    for stream in streams:
        stream.leave()
    left = time.monotonic()
    gone = engine.exited()
    say(f"  without Streamgate: last byte {silent:.1f} s after SIGTERM, no error, no end; vLLM "
        f"still there after {waited:.0f} s; exit {gone - left:.1f} s after its clients left")


def parts(stack, args, folder, recipe):
    (first, second), idle_exit = rollout(stack, args, folder, recipe)
    contrast(args, folder, first)
    # Starts while part 3 runs.
    alone = stack.enter_context(Engine(args.venv, free_port(), folder / "vllm-alone.log",
                                       [f"--shutdown-timeout={TIMEOUT}"]))
    deadline(args, folder, second, idle_exit)
    hang(alone.wait_ready())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--streamgate", required=True)
    parser.add_argument("--venv", required=True, type=pathlib.Path)
    args = parser.parse_args()
    # Ended from outside, it still ends what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    recipe = Recipe()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        folder = pathlib.Path(folder)
        try:
            parts(stack, args, folder, recipe)
        except BaseException:
            for log in sorted(folder.glob("*.log")):
                say(f"--- the end of {log.name}")
                say("\n".join(log.read_text(errors="replace").splitlines()[-15:]))
            raise
    say("All of it held.")


if __name__ == "__main__":
    main()
