#!/usr/bin/env python3
"""Our own client's figures beside aiperf's, from the files of both alone, as Markdown."""

import gzip
import json
import sys
from pathlib import Path
from statistics import mean

BOUNDS = {"ttft": 2000.0, "tpot": 150.0, "e2e": 30000.0}
TAGS = {"ttft": "time_to_first_token", "tpot": "inter_token_latency", "e2e": "request_latency"}
LIMIT = 5.0


def quantile(values, p):
    """Linear interpolation between closest ranks."""
    values = sorted(values)
    at = (len(values) - 1) * p
    low = int(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (at - low)


def own(folder):
    lines = gzip.open(folder / "records.jsonl.gz", "rt")
    arrivals = [r for r in map(json.loads, lines) if r["kind"] == "arrival"]
    complete = [a for a in arrivals if a["outcome"] == "complete"]
    each = [
        {
            "ttft": (a["first_us"] - a["start_us"]) / 1e3,
            "tpot": (a["last_us"] - a["first_us"]) / (a["output_tokens"] - 1) / 1e3,
            "e2e": (a["end_us"] - a["start_us"]) / 1e3,
        }
        for a in complete
    ]
    span = max(a["end_us"] for a in arrivals) - min(a["start_us"] for a in arrivals)
    reasons = sorted({a["reason"] for a in arrivals if a["reason"]})
    return {"planned": len(arrivals), "each": each, "span": span / 1e6, "reasons": reasons}


def aiperf(out, name):
    records = map(json.loads, gzip.open(out / "aiperf" / f"{name}.jsonl.gz", "rt"))
    records = [r for r in records if r["metadata"]["benchmark_phase"] == "profiling"]
    done = [r for r in records if not r.get("error")]
    value = lambda r, tag: r["metrics"].get(tag, {}).get("value")
    each = [{key: value(r, tag) for key, tag in TAGS.items()} for r in done]
    starts = [r["metadata"]["request_start_ns"] for r in records]
    ends = [r["metadata"]["request_end_ns"] for r in records]
    errors = sorted({str(r["error"].get("type")) for r in records if r.get("error")})
    told = json.loads((out / "aiperf" / f"{name}.json").read_text())
    return {
        "planned": len(records),
        "each": each,
        "span": (max(ends) - min(starts)) / 1e9,
        "reasons": errors,
        "told": told,
    }


def good(run):
    within = lambda e: all(e[k] is not None and e[k] <= bound for k, bound in BOUNDS.items())
    return sum(map(within, run["each"]))


def rows(ours, theirs):
    yield "requests", "", ours["planned"], theirs["planned"]
    yield "successful", "", len(ours["each"]), len(theirs["each"])
    for key in ("ttft", "tpot", "e2e"):
        a, b = ([e[key] for e in run["each"]] for run in (ours, theirs))
        yield f"{key.upper()} mean", "ms", mean(a), mean(b)
        yield f"{key.upper()} P50", "ms", quantile(a, 0.5), quantile(b, 0.5)
        yield f"{key.upper()} P95", "ms", quantile(a, 0.95), quantile(b, 0.95)
    yield "good (of three bounds)", "", good(ours), good(theirs)
    told = theirs["told"].get("good_request_count", {}).get("avg")
    if told is not None:
        yield "good, as aiperf counts", "", good(ours), told
    yield "goodput", "/s", good(ours) / ours["span"], good(theirs) / theirs["span"]
    told = theirs["told"].get("goodput", {}).get("avg")
    if told is not None:
        yield "goodput, as aiperf says", "/s", good(ours) / ours["span"], told


def table(out, name):
    about = json.loads((out / name / "scenario.json").read_text())["about"]
    print(f"\n## {name.capitalize()} loop\n\n{about}\n")
    print("| figure | own client | aiperf | difference |\n|---|---|---|---|")
    worst = 0.0
    for label, unit, a, b in rows(own(out / name), aiperf(out, name)):
        off = 0.0 if a == b else abs(b - a) / abs(a) * 100
        worst = max(worst, off)
        shown = [f"{v:.0f}" if not unit else f"{v:.3f} {unit}" for v in (a, b)]
        print(f"| {label} | {shown[0]} | {shown[1]} | {off:.2f} % |")
    verdict = "within" if worst <= LIMIT else "ABOVE"
    print(f"\nLargest difference: {worst:.2f} %, {verdict} the {LIMIT:.0f} % asked for.")
    return worst <= LIMIT


def truncated(out):
    print("\n## Truncated streams\n")
    print("Every answer ends properly after 20 events, without `[DONE]` and without usage.\n")
    print("| client | way | requests | successes | failures told |\n|---|---|---|---|---|")
    for way in ("direct", "streamgate"):
        for client, run in (
            ("own", own(out / f"truncated-{way}")),
            ("aiperf", aiperf(out, f"truncated-{way}")),
        ):
            reasons = ", ".join(run["reasons"]) or "–"
            print(f"| {client} | {way} | {run['planned']} | {len(run['each'])} | {reasons} |")


def main():
    out = Path(sys.argv[1])
    print("# Two clients, one load\n")
    print("Written by `loadtests/clients/run.sh`: both clients send the same bodies in the same")
    print("order, one after the other, through Streamgate to a simulated engine in real time. One engine,")
    print("for with two the draws among equally loaded replicas move P50 of TTFT by a tenth from run")
    print("to run of one and the same client.")
    print()
    print("aiperf 0.13.0 takes token counts from the server. Goodput counts requests within TTFT")
    print("≤ 2 s, TPOT ≤ 150 ms and E2E ≤ 30 s, a second between first start and last end.")
    fine = [table(out, name) for name in ("closed", "open")]
    truncated(out)
    sys.exit(0 if all(fine) else 1)


main()
