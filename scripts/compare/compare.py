"""Streamgate and LiteLLM beside each other: one tenant, three replicas, one Redis, the same script.

    python scripts/compare/compare.py [streamgate] [litellm]

The engine counts; nothing is asked of the systems but their answers. Prints a Markdown table.
"""

import asyncio
import collections
import sys
import time

from system import System

CAP = 4
LATEST = 90.0


async def clients(system, replicas, count, tokens, until):
    """A closed loop of clients; how often each end came."""
    ends = collections.Counter()

    async def client(turn):
        while not until.is_set():
            end, _ = await system.ask(replicas[turn % len(replicas)], tokens)
            ends[end] += 1
            turn += 1
            if end != "complete":
                await asyncio.sleep(0.02)

    await asyncio.gather(*(client(turn) for turn in range(count)))
    return ends


async def loaded(system, replicas, count, tokens, seconds):
    until = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, until.set)
    return await clients(system, replicas, count, tokens, until)


async def admitted(system, replica):
    """Seconds until this replica admits a request; None after a minute and a half."""
    start = time.monotonic()
    while time.monotonic() - start < LATEST:
        begun = asyncio.Event()
        task = asyncio.create_task(system.ask(replica, 1, begun))
        await task
        if begun.is_set():
            return time.monotonic() - start
        await asyncio.sleep(0.02)
    return None


def shown(seconds):
    return f"not within {LATEST:.0f} s" if seconds is None else f"{seconds:.2f} s"


async def leave(tasks):
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def steady(system):
    ends = await loaded(system, [0, 1, 2], 12, 15, 10)
    most = (await system.stats())["max_in_flight"]
    used = ends["complete"] * 14 * 0.02 / 10 / CAP
    return f"most {most}, {ends['complete']} served ({used:.0%} of the cap in use)"


async def killed(system):
    held = [await system.hold(0) for _ in range(CAP)]
    await system.runs(CAP)
    await asyncio.sleep(1)
    system.kill(0)
    took = await admitted(system, 1)
    await leave(held)
    return f"usable after {shown(took)}"


async def flushed(system):
    held = [await system.hold(replica) for replica in (0, 1, 2, 0)]
    await system.runs(CAP)
    await asyncio.sleep(1)
    system.flush()
    await loaded(system, [0, 1, 2], 12, 15, 5)
    most = (await system.stats())["max_in_flight"]
    await leave(held)
    return f"most {most}"


async def lost(system):
    """Answers of the Redis to one replica vanish for two seconds under load."""
    until = asyncio.Event()
    load = asyncio.create_task(clients(system, [0, 1, 2], 12, 15, until))
    await asyncio.sleep(2)
    system.relays[0].deaf = True
    await asyncio.sleep(2)
    system.relays[0].deaf = False
    await asyncio.sleep(6)
    until.set()
    await load
    await system.runs(0)
    most = (await system.stats())["max_in_flight"]
    await asyncio.sleep(2)
    await system.reset()
    # How many of the slots can be used afterwards?
    tasks = [asyncio.create_task(system.ask(1, 200)) for _ in range(CAP)]
    await asyncio.sleep(2)
    after = (await system.stats())["in_flight"]
    await leave(tasks)
    return f"most {most}; afterwards {after} of {CAP} slots usable"


async def stale(system):
    """A replica that was refused, and a slot that ends on another one."""
    took = []
    for _ in range(5):
        held = [await system.hold(0) for _ in range(CAP)]
        await system.runs(CAP)
        assert (await system.ask(1, 1))[0] != "complete"
        await leave(held[:1])
        await system.runs(CAP - 1)
        took.append(await admitted(system, 1))
        await leave(held)
        await system.runs(0)
        if took[-1] is None:
            break
    worst = None if None in took else max(took)
    return f"admitted after at most {shown(worst)}"


SCENARIOS = [
    ("steady: 12 clients, 10 s", steady),
    ("`kill -9` of the replica that holds all", killed),
    ("`FLUSHALL` with all held, then 12 clients", flushed),
    ("answers to one replica lost for 2 s", lost),
    ("stale \"full\": a slot ends on another replica", stale),
]


async def main(kinds):
    rows = []
    for name, scenario in SCENARIOS:
        row = [name]
        for kind in kinds:
            async with System(kind, CAP) as system:
                try:
                    row.append(await asyncio.wait_for(scenario(system), 240))
                except Exception as error:  # a system that does not get through is a result
                    row.append(f"did not get through: {type(error).__name__} {error}".strip())
            print(f"{kind}, {name}: {row[-1]}", file=sys.stderr, flush=True)
        rows.append(row)
    print(f"| three replicas, cap {CAP} | " + " | ".join(kinds) + " |")
    print("|---" * (len(kinds) + 1) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |")


asyncio.run(main(sys.argv[1:] or ["streamgate", "litellm"]))
