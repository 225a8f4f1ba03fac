"""Simulation of many activators and pods: run the experiments, write results, plots and tables.

Run it by ``make simulation`` or ``python -m benchmarks.simulation``. Ctrl-C ends the run, and
prints the tables of the experiments that have results. Only a complete run writes files. With
``--only`` the other experiments keep their results.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import NamedTuple

from benchmarks.simulation import page
from benchmarks.simulation.experiments import EXPERIMENTS, Experiment, quick
from benchmarks.simulation.measures import Result, combine
from benchmarks.simulation.scenario import RuleName, Scenario
from benchmarks.simulation.tables import Results, read, tables, write
from benchmarks.simulation.world import run


class Job(NamedTuple):
    """One run."""

    experiment: str
    label: str
    scenario: Scenario
    rule: RuleName
    seed: int


def jobs(experiments: Sequence[Experiment], seeds: Sequence[int]) -> Iterator[Job]:
    """Yield all runs; the largest first, so that the processes end together.

    Arguments:
        seeds: of each row; if there are none, each experiment has its own.
    """
    found = [
        Job(experiment.name, label, scenario, rule, seed)
        for experiment in experiments
        for label, scenario in experiment.rows
        for rule in experiment.rules
        for seed in seeds or range(1, experiment.runs + 1)
    ]
    size = {job.scenario.name: job.scenario.rate * job.scenario.seconds for job in found}
    return iter(sorted(found, key=lambda job: -size[job.scenario.name]))


def _timed(job: Job) -> tuple[Result, float]:
    began = time.process_time()
    return run(job.scenario, job.rule, job.seed), time.process_time() - began


def run_all(todo: Sequence[Job], processes: int) -> tuple[dict[Job, Result], bool]:
    """Run all jobs in processes, with progress on standard error.

    Returns:
        The results, and whether they are complete.
    """
    results: dict[Job, Result] = {}
    pool = ProcessPoolExecutor(
        processes, initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_DFL)
    )
    try:
        futures: dict[Future[tuple[Result, float]], Job] = {
            pool.submit(_timed, job): job for job in todo
        }
        for future in as_completed(futures):
            job = futures[future]
            results[job], took = future.result()
            print(
                f"[{len(results)}/{len(todo)}] {job.scenario.name}, {job.rule}, seed {job.seed}: "
                f"{results[job].requests:,.0f} requests in {took:.1f} s",
                file=sys.stderr,
                flush=True,
            )
        return results, True
    except (KeyboardInterrupt, BrokenProcessPool):
        print("ended early; the tables have what is complete", file=sys.stderr)
        return results, False
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def collect(found: dict[Job, Result]) -> Results:
    """Return the medians over the seeds, in the order of the experiments."""
    by_row: dict[tuple[str, str, RuleName], list[Result]] = {}
    for job in sorted(found, key=lambda job: job.seed):
        by_row.setdefault((job.experiment, job.label, job.rule), []).append(found[job])
    results: Results = {}
    for experiment in EXPERIMENTS:
        for label, _ in experiment.rows:
            for rule in experiment.rules:
                if several := by_row.get((experiment.name, label, rule)):
                    row = results.setdefault(experiment.name, {}).setdefault(label, {})
                    row[rule] = combine(several)
    return results


def main() -> int:
    """Run; the exit status is 1 if the run ended early."""
    options = _options()
    chosen = [one for one in EXPERIMENTS if not options.only or one.name in options.only]
    if options.quick:
        chosen = [quick(one) for one in chosen]
    seeds = options.seeds or ([1] if options.quick else [])
    found, complete = run_all(list(jobs(chosen, seeds)), options.processes)
    results = collect(found)
    for name, text in tables(results, chosen).items():
        print(f"\n{name}\n\n{text}")
    if complete and not (options.quick or options.seeds):
        write((read() | results) if options.only else results)
        page.write()
    return 0 if complete else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulation", description=__doc__)
    names = [experiment.name for experiment in EXPERIMENTS]
    parser.add_argument(
        "--quick", action="store_true", help="short runs with one seed; write no file"
    )
    parser.add_argument(
        *("--only",),
        nargs="+",
        choices=names,
        metavar="NAME",
        help="only these experiments: " + ", ".join(names),
    )
    parser.add_argument(
        "--seeds",
        nargs="+",
        type=int,
        metavar="N",
        help="seeds; default: 1 2 3 …. With this option the run writes no file",
    )
    parser.add_argument(
        "--processes",
        type=int,
        default=os.cpu_count() or 1,
        help="processes; default: one for each CPU",
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
