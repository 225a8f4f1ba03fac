"""``python -m benchmarks``: run benchmarks, print the table, write JSON."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import (
    adaptive,
    authorization,
    cold_start,
    core,
    crowded,
    endurance,
    event_streams,
    footprint,
    heads,
    http2,
    http2_codec,
    idle,
    instructions,
    interceptor,
    kills,
    overload,
    plain_cold_start,
    policies,
    proxying,
    rollout,
    scaler,
    sigterm,
    slow_readers,
    startup,
    tcp,
    tcp_servers,
    tls,
    two_activators,
    unreachable,
    waiting,
)
from benchmarks.process import RESULTS, CannotMeasure, raise_file_limit
from benchmarks.report import Row, skipped, table, write_json

Part = Callable[[Path, argparse.Namespace], Iterator[Row]]

#: The benchmarks by name, in the table's order.
PARTS: dict[str, Part] = {
    "proxying": lambda folder, o: proxying.measure(
        folder, 3 if o.quick else 5, 1.0 if o.quick else 3.0, o.itself
    ),
    "http2": lambda folder, o: http2.measure(
        folder, 3 if o.quick else 5, 4_800 if o.quick else 9_600
    ),
    "tls": lambda folder, o: tls.measure(
        folder, tls.Turns(3, 2, 2_000, 100, 60) if o.quick else tls.Turns(5, 2, 9_600, 200, 110)
    ),
    "instructions": lambda folder, o: instructions.measure(folder, 10, 60 if o.quick else 110),
    "heads": lambda folder, o: heads.measure(),
    "waiting": lambda folder, o: waiting.measure(
        folder, 1000 if o.quick else 5000, 1 if o.quick else 3
    ),
    "waves": lambda folder, o: waiting.measure_waves(
        folder, 2000 if o.quick else 9000, 2 if o.quick else 10
    ),
    "cold-start": lambda folder, o: cold_start.measure(folder, 10 if o.quick else 30),
    "plain-cold-start": lambda folder, o: plain_cold_start.measure(5 if o.quick else 30),
    "two-activators": lambda folder, o: two_activators.measure(30 if o.quick else 200),
    "interceptor": lambda folder, o: interceptor.measure(
        folder,
        interceptor.Sizes(1, 2.0, 2000, 5) if o.quick else interceptor.Sizes(3, 3.0, 2000, 20),
        o.itself,
    ),
    "core": lambda folder, o: core.measure(1000 if o.quick else 10_000),
    "adaptive": lambda folder, o: adaptive.measure(),
    "policies": lambda folder, o: policies.measure(
        folder, 1 if o.quick else 3, 2.0 if o.quick else 5.0
    ),
    "authorization": lambda folder, o: authorization.measure(
        folder, *((1, 1_600, 2.0) if o.quick else (5, 8_000, 5.0))
    ),
    "http2-codec": lambda folder, o: http2_codec.measure(),
    "scaler": lambda folder, o: scaler.measure(
        folder, 1000 if o.quick else 5000, 6.0 if o.quick else 30.0, 10 if o.quick else 50
    ),
    "unreachable": lambda folder, o: unreachable.measure(folder, 1000),
    "kills": lambda folder, o: kills.measure(folder, o.seconds or (10 if o.quick else 60)),
    "overload": lambda folder, o: overload.measure(folder, o.seconds or (15 if o.quick else 120)),
    "rollout": lambda folder, o: rollout.measure(folder, o.seconds or (15 if o.quick else 60)),
    "sigterm": lambda folder, o: sigterm.measure(folder, o.seconds or (10 if o.quick else 60)),
    "endurance": lambda folder, o: endurance.measure(folder, o.seconds or (20 if o.quick else 180)),
    "footprint": lambda folder, o: footprint.measure(
        folder, 500 if o.quick else 2000, 1000, 1 if o.quick else 3
    ),
    "event-streams": lambda folder, o: event_streams.measure(
        folder, 500 if o.quick else 5000, 1 if o.quick else 3
    ),
    "tcp": lambda folder, o: tcp.measure(
        folder, tcp.Turns(3, 1_000, 0.5, 500) if o.quick else tcp.Turns(5, 4_000, 2.0, 2_000)
    ),
    "tcp-servers": lambda folder, o: tcp_servers.measure(
        folder,
        tcp_servers.Turns(5, 200, 12, 300) if o.quick else tcp_servers.Turns(20, 1_000, 60, 10_000),
    ),
    "slow-readers": lambda folder, o: slow_readers.measure(folder, o.quick, 1 if o.quick else 3),
    "crowded": lambda folder, o: crowded.measure(folder, 1000, 20.0 if o.quick else 60.0),
    "idle": lambda folder, o: idle.measure(folder, 1000, 10.0 if o.quick else 60.0),
    "startup": lambda folder, o: startup.measure(folder, 3 if o.quick else 5),
}


def main() -> int:
    """Run the selected parts; the exit status is 1 if a goal is missed."""
    options = _options()
    raise_file_limit()
    rows: list[Row] = []
    for name in options.only or PARTS:
        rows += _measure(name, options)
    print("\n" + table(rows))
    print(f"\n{write_json(rows, RESULTS)}")
    return 1 if any(row.met is False for row in rows) else 0


def _measure(name: str, options: argparse.Namespace) -> list[Row]:
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix=f"bench-{name}-") as folder:
        try:
            for row in PARTS[name](Path(folder), options):
                print(f"{row.what}: {row.measured}", flush=True)
                rows.append(row)
        except CannotMeasure as reason:
            rows.append(skipped(name, str(reason)))
            print(f"{name}: {rows[-1].measured}", flush=True)
    return rows


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--only", nargs="+", choices=PARTS, metavar="PART", help=", ".join(PARTS))
    parser.add_argument(
        "--seconds",
        type=int,
        default=0,
        help="kills, overload, rollout, sigterm, endurance: how long",
    )
    parser.add_argument(
        "--itself",
        action="store_true",
        help="proxying, interceptor: measure a second nginx or interceptor instead of the"
        " activator; the ratio should be 1",
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
