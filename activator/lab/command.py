"""``activator lab``: run scenarios and print their timelines and results.

A signal ends the command in order: no process is left.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from asyncio import Future, Task
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TextIO

from activator.lab import report
from activator.lab.addresses import AddressPool
from activator.lab.control_plane.server import KUBECONFIG
from activator.lab.environment import Environment
from activator.lab.report import Printer, guide
from activator.lab.scenario import Scenario, ScenarioOutcome, run_scenario
from activator.lab.scenarios import SCENARIOS, find
from activator.lab.timeline import TimelineEntry

#: The version of the JSON document. It grows when a field is removed or changes its meaning.
JSON_VERSION: Final = 1

PASSED, FAILED, INTERRUPTED = 0, 1, 130

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Misuse(Exception):
    """The arguments are wrong; the text says why."""


def show_list(out: TextIO | None = None) -> None:
    """Print number, name and title of all scenarios, to standard output by default."""
    Printer(out or sys.stdout).rows(report.listing(SCENARIOS))


def run(
    words: Sequence[str],
    *,
    keep: bool = False,
    as_json: bool = False,
    out: TextIO | None = None,
    addresses: AddressPool | None = None,
) -> int:
    """Run scenarios one after the other.

    Arguments:
        words: numbers or names of scenarios; none means all.
        keep: leave the scenario's processes running afterwards, until a signal.
        as_json: print one JSON document and nothing else.
        out: the stream to print to; standard output by default.
        addresses: addresses for pods; 127.0.0.11 and following by default.

    Returns:
        The exit status: 0 if all have passed, 1 if not, 130 after a signal.

    Raises:
        Misuse: a word names no scenario, or the options contradict each other.
    """
    try:
        scenarios = find(words)
    except LookupError as error:
        raise Misuse(str(error.args[0])) from None
    if keep and len(scenarios) != 1:
        raise Misuse("--keep is for one scenario: name it")
    if keep and as_json:
        raise Misuse("--keep prints events at once, --json only at the end: choose one")
    lab = _Lab(scenarios, keep, as_json, out or sys.stdout, addresses or AddressPool())
    with asyncio.Runner() as runner:
        return runner.run(lab.run())


class _Lab:
    """One run of the command."""

    def __init__(
        self,
        scenarios: Sequence[Scenario],
        keep: bool,
        as_json: bool,
        out: TextIO,
        addresses: AddressPool,
    ) -> None:
        self._scenarios = scenarios
        self._keep = keep
        self._as_json = as_json
        self._out = out
        self._printer = Printer(out)
        self._addresses = addresses
        self._kept: Future[None] | None = None
        self._interrupted = False

    async def run(self) -> int:
        """Run all scenarios, unless a signal comes; return the exit status."""
        running = asyncio.ensure_future(self._run_all())
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._on_signal, running)
        await asyncio.wait([running])
        if running.cancelled():
            return INTERRUPTED
        passed = running.result()  # also after a signal, so that no exception is lost
        if self._interrupted:
            return INTERRUPTED
        return PASSED if passed else FAILED

    def _on_signal(self, running: Task[bool]) -> None:
        """End the kept scenario, or cancel the run; ignore further signals."""
        if self._interrupted:
            return
        self._interrupted = True
        if self._kept is not None:
            self._kept.set_result(None)
        else:
            running.cancel()

    async def _run_all(self) -> bool:
        outcomes = []
        for number, scenario in enumerate(self._scenarios, 1):
            outcomes.append(await self._run_one(scenario, number))
            if self._interrupted:
                break
        if self._as_json:
            json.dump(_document(outcomes), self._out, indent=2)
            self._out.write("\n")
        elif len(outcomes) > 1:
            self._printer.rows(report.summary(outcomes))
        return all(outcome.passed for outcome in outcomes)

    async def _run_one(self, scenario: Scenario, number: int) -> ScenarioOutcome:
        if self._as_json:
            return await self._record(scenario)
        if self._keep:
            return await self._run_live(scenario)
        self._printer.rows(report.heading(scenario, number, len(self._scenarios)))
        with self._printer.under_way(f"{scenario.name} runs"):
            outcome = await self._record(scenario)
        self._printer.rows([*report.timeline(outcome), *report.result(outcome)])
        return outcome

    async def _record(self, scenario: Scenario) -> ScenarioOutcome:
        """Run one scenario and record its entries; after a signal, return the entries so far.

        They show where a script was waiting.
        """
        began = time.monotonic()
        entries: list[TimelineEntry] = []

        def note(found: TimelineEntry) -> None:
            if not self._interrupted:  # leave out the end of the processes
                entries.append(found)

        try:
            return await run_scenario(scenario, self._addresses, note)
        except asyncio.CancelledError:
            return ScenarioOutcome(
                scenario, entries, False, "interrupted", time.monotonic() - began
            )

    async def _run_live(self, scenario: Scenario) -> ScenarioOutcome:
        """Run one scenario, print each entry at once, and keep its processes until a signal."""
        self._printer.rows(report.heading(scenario, 1, 1))
        return await run_scenario(scenario, self._addresses, self._tell, self._keep_running)

    def _tell(self, found: TimelineEntry) -> None:
        self._printer.rows([report.entry(found)])

    async def _keep_running(self, environment: Environment, passed: bool) -> None:
        word = "passed" if passed else "failed"
        self._printer.rows([report.text(), report.text(f"  {word}", word), report.text()])
        self._printer.rows(_guide(environment))
        self._kept = asyncio.get_running_loop().create_future()
        await self._kept


def _document(outcomes: Sequence[ScenarioOutcome]) -> dict[str, object]:
    return {
        "version": JSON_VERSION,
        "passed": all(outcome.passed for outcome in outcomes),
        "seconds": round(sum(outcome.seconds for outcome in outcomes), 3),
        "scenarios": [outcome.as_json() for outcome in outcomes],
    }


def _guide(environment: Environment) -> list[report.ReportRow]:
    activator = environment.activator
    apps = environment.apps
    pods = [pod.options for app in apps for pod in app.pods if not pod.count("stopped")]
    return guide(
        "{}:{}".format(*activator.traffic),
        "{}:{}".format(*activator.admin),
        _objects(environment.manifests),
        [app.name for app in apps],
        pods,
        {switch for app in apps for switch in app.probed_switches},
    )


def _objects(folder: Path) -> str:
    """Return where the objects are: in a folder, or in an API server with a kubeconfig there."""
    config = folder / KUBECONFIG
    shown = f"kubectl --kubeconfig {config} get deployments,pods,endpointslices"
    return shown if config.exists() else str(folder)
