"""``python -m benchmarks.soak``: run a soak, print its table, write JSON."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from random import SystemRandom
from threading import Event
from time import monotonic

from activator import build
from benchmarks.agenda import Agenda
from benchmarks.interrupt import stop_on_interrupt
from benchmarks.process import RESULTS, ROOT, CannotMeasure, open_files, raise_file_limit
from benchmarks.report import Row, table, write_json
from benchmarks.soak import checks, network, verdict, world
from benchmarks.soak.faults import Faults
from benchmarks.soak.plan import plan
from benchmarks.soak.world import World

#: Seconds between reports of the clients, and between lines of progress.
REPORT_EVERY, PRINT_EVERY = 2.0, 30.0
#: Seconds between scale-downs of the cold service, and at zero.
ZERO_EVERY, AT_ZERO = 12.0, 3.0
#: Rows of the plan that a run prints; the JSON file has all.
SHOWN = 2000


def main() -> int:
    """Run a soak; the exit status is 1 if an invariant does not hold, 130 without a table."""
    chosen = options(sys.argv[1:])
    if not os.environ.get(network.INSIDE + "_TRIED"):
        _restart(chosen)
    if not chosen.pure and build.running() is not build.Build.COMPILED:
        print("this is not the compiled build: run `make soak`, or add --pure", file=sys.stderr)
        return 2
    raise_file_limit()
    print(f"{build.description()}, seed {chosen.seed}, {chosen.seconds:g} s", flush=True)
    try:
        with tempfile.TemporaryDirectory(prefix="soak-") as folder:
            rows = _run(Path(folder), chosen)
    except CannotMeasure as reason:
        print(f"the soak could not run: {reason}; {_repeat(chosen)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:  # the second one; the first one ends the traffic
        print(f"ended without a table; {_repeat(chosen)}", file=sys.stderr)
        return 130
    print("\n" + table(rows))
    _print_failures(rows)
    print(f"\n{write_json(rows, RESULTS)}")
    failed = any(row.met is False for row in rows)
    print(_repeat(chosen) if failed else held(rows[0].details["seconds"]))
    return 1 if failed else 0


def _restart(options: argparse.Namespace) -> None:
    """Start again, with a folder of logs and if possible a network namespace of its own."""
    inside = [] if options.host_network else network.command()
    now = datetime.now(UTC)
    results = ROOT / "benchmarks" / "results" / f"soak-{now:%Y%m%dT%H%M%SZ}-{options.seed}"
    settings = {
        "BENCHMARK_RESULTS": f"{results}",
        network.INSIDE + "_TRIED": "yes",
        network.INSIDE: "yes" if inside else "",
    }
    arguments = ["--seconds", f"{options.seconds:g}", "--seed", f"{options.seed}"]
    line = [*inside, sys.executable, "-m", "benchmarks.soak", *arguments, *_flags(options)]
    os.execvpe(line[0], line, {**os.environ, **settings})


def _run(folder: Path, options: argparse.Namespace) -> list[Row]:
    faults = plan(options.seed, options.seconds)
    print(f"the plan: {len(faults)} faults", *faults[:SHOWN], sep="\n  ", flush=True)
    if why := network.missing():
        print(f"packets are not dropped: {why}", flush=True)
    with world.running(folder, options.seed) as found, stop_on_interrupt() as stop:
        agenda = Agenda(stop)
        first = found.activators[0].present
        assert first is not None
        world.metrics(found.activators[0])  # so that one-time allocations are done
        files = open_files(first.pid)
        with world.traffic_of(found):
            began = monotonic()
            carrier = Faults(found, agenda)
            for each in faults:
                agenda.after(each.at, lambda each=each: carrier.begin(each))  # type: ignore[misc]
            agenda.every(checks.SAMPLE_EVERY, lambda: _sample(found, began, stop), first=1.0)
            agenda.every(REPORT_EVERY, found.clients.report, first=1.5)
            agenda.every(ZERO_EVERY, lambda: _cold_start(found, agenda), first=ZERO_EVERY / 4)
            agenda.every(PRINT_EVERY, lambda: _progress(found, began, options), first=PRINT_EVERY)
            agenda.run(options.seconds)
            seconds = monotonic() - began
            carrier.end()
            found.traffic.mend()
            found.hear()
            found.clients.end()
        found.compare()
        found.come_to_rest(files)
        rows = list(checks.rows(seconds, found.evidence, found.traffic, found.cluster.arrived))
    rows[0].details |= {
        "seed": options.seed,
        "seconds": seconds,
        "began": began,
        "plan": [str(each) for each in faults],
        "occurred": [str(each) for each in found.evidence.occurred],
        "attacks": [asdict(each) for each in found.evidence.attacks],
    }
    return rows


def _sample(found: World, began: float, stop: Event) -> None:
    found.sample(began)
    if found.evidence.crashes:  # all further traffic would be lost
        stop.set()


def _cold_start(found: World, agenda: Agenda) -> None:
    for pod in found.traffic.to_zero():
        found.note_end(pod, monotonic(), agenda)
    agenda.after(AT_ZERO, lambda: found.traffic.from_zero(agenda))


def _progress(found: World, began: float, options: argparse.Namespace) -> None:
    evidence, traffic = found.evidence, found.traffic
    evidence.misnumbered = found.ingress.misnumbered()
    last = evidence.samples[-1] if evidence.samples else None
    failed = [
        each
        for each in traffic.failures
        if verdict.fate(each, traffic.kills, evidence.occurred, evidence.misnumbered)
        is verdict.Fate.LOST
    ]
    memory = f"{last.resident / checks.MIB:.1f} MiB, {last.files} files" if last else ""
    print(
        f"  {monotonic() - began:.0f} of {options.seconds:g} s:"
        f" {sum(traffic.ended.values()):,} requests, {len(failed)} lost,"
        f" {len(evidence.occurred)} faults; {memory}",
        flush=True,
    )
    texts = [f"{each.sent - began:.1f} s: {checks.text_of(each)}\n" for each in failed]
    (RESULTS / "lost.txt").write_text("".join(texts))


def _print_failures(rows: list[Row]) -> None:
    for row in rows:
        if row.met is False:
            print(f"\nNOT HELD: {row.what}: {row.measured}, goal {row.goal}")
            for text in row.details.get("failure", []):
                print(f"  {text}")


def held(seconds: float) -> str:
    """Return the good end of a run that had so many seconds of traffic."""
    if seconds >= checks.LONG_ENOUGH:
        return "all invariants held"
    return f"all invariants held; a run below {checks.LONG_ENOUGH:g} s has no goal for memory"


def _repeat(options: argparse.Namespace) -> str:
    flags = " ".join(_flags(options))
    more = f" SOAK_ARGS={shlex.quote(flags)}" if flags else ""
    command = f"make soak SECONDS={options.seconds:g} SEED={options.seed}{more}"
    return f"repeat it by: {command}\nlogs: {shlex.quote(str(RESULTS))}"


def _flags(options: argparse.Namespace) -> list[str]:
    """Return the flags of a command line."""
    flags = {"--pure": options.pure, "--host-network": options.host_network}
    return [flag for flag, is_set in flags.items() if is_set]


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of more than 0")
    return seconds


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line.

    Raises:
        SystemExit: with 2; an argument is wrong.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.soak",
        description="Send mixed traffic through two activators, cause faults of all kinds, and"
        " check invariants. Needs nginx; as root with iptables it also drops packets. The exit"
        " status is 1 if an invariant does not hold, with the command that repeats the run."
        " docs/benchmarks.md describes faults and invariants.",
    )
    seconds = "seconds of traffic, 1800 by default; all kinds of faults take 600"
    parser.add_argument("--seconds", type=_seconds, default=1800.0, help=seconds)
    seed = "decides kinds, times and targets of all faults; by default a new one, which is printed"
    parser.add_argument("--seed", type=int, default=None, help=seed)
    parser.add_argument(
        "--pure", action="store_true", help="run the source, not the compiled build"
    )
    parser.add_argument(
        "--host-network", action="store_true", help="make no network namespace; drop no packets"
    )
    found = parser.parse_args(arguments)
    if found.seed is None:
        found.seed = SystemRandom().randrange(1 << 16)
    return found


if __name__ == "__main__":
    sys.exit(main())
