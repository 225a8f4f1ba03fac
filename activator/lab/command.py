"""``activator lab``: plays the scenarios that were asked for and tells how they went.

Puts playing and printing together, and ends in order when it is interrupted: no process is left.
Knative has no counterpart.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from asyncio import Future, Task
from collections.abc import Sequence
from typing import Final, TextIO

from activator.lab import report
from activator.lab.addresses import AddressPool
from activator.lab.catalogue import SCENARIOS, find
from activator.lab.keeping import Place, guide
from activator.lab.playing import outcome_of, play
from activator.lab.printing import Printer
from activator.lab.scenario import Scenario
from activator.lab.stage import Stage
from activator.lab.timeline import Entry, Outcome

#: The version of what ``--json`` prints: grows when something is taken away or means another thing.
JSON_VERSION: Final = 1

PASSED, FAILED, INTERRUPTED = 0, 1, 130

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Misuse(Exception):
    """What was asked for cannot be done; says why."""


def show_list(out: TextIO | None = None) -> None:
    """Prints the scenarios that there are, to standard output by default."""
    Printer(out or sys.stdout).rows(report.listing(SCENARIOS))


def run(
    words: Sequence[str],
    *,
    keep: bool = False,
    as_json: bool = False,
    out: TextIO | None = None,
    addresses: AddressPool | None = None,
) -> int:
    """Plays scenarios.

    Arguments:
        words: their numbers or names; none means all.
        keep: leave the scenario's processes running afterwards, until a signal.
        as_json: print one JSON document and nothing else.
        out: where to; standard output by default.
        addresses: where pods may listen; 127.0.0.11 and following by default.

    Returns:
        The exit status: 0 if all have passed, 1 if not, 130 after a signal.

    Raises:
        Misuse: a word is no scenario's, or several shall be kept running.
    """
    try:
        scenarios = find(words)
    except LookupError as error:
        raise Misuse(str(error.args[0])) from None
    if keep and len(scenarios) != 1:
        raise Misuse("--keep is for one scenario: name it")
    if keep and as_json:
        raise Misuse("--keep tells what happens as it happens, --json when all is over")
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
        """Plays all, unless a signal comes, and returns the exit status."""
        playing = asyncio.ensure_future(self._play_all())
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._on_signal, playing)
        await asyncio.wait([playing])
        if playing.cancelled():
            return INTERRUPTED
        passed = playing.result()  # also of what was interrupted: its errors are not to be lost
        if self._interrupted:
            return INTERRUPTED
        return PASSED if passed else FAILED

    def _on_signal(self, playing: Task[bool]) -> None:
        """The end of what is kept, or of everything; what ends already is left to end."""
        if self._interrupted:
            return
        self._interrupted = True
        if self._kept is not None:
            self._kept.set_result(None)
        else:
            playing.cancel()

    async def _play_all(self) -> bool:
        outcomes = []
        for number, scenario in enumerate(self._scenarios, 1):
            outcomes.append(await self._play(scenario, number))
            if self._interrupted:
                break
        if self._as_json:
            json.dump(_document(outcomes), self._out, indent=2)
            self._out.write("\n")
        elif len(outcomes) > 1:
            self._printer.rows(report.summary(outcomes))
        return all(outcome.passed for outcome in outcomes)

    async def _play(self, scenario: Scenario, number: int) -> Outcome:
        if self._as_json:
            return await self._play_noting(scenario)
        if self._keep:
            return await self._play_live(scenario)
        self._printer.rows(report.heading(scenario, number, len(self._scenarios)))
        with self._printer.under_way(f"{scenario.name} runs"):
            outcome = await self._play_noting(scenario)
        self._printer.rows([*report.timeline(outcome), *report.result(outcome)])
        return outcome

    async def _play_noting(self, scenario: Scenario) -> Outcome:
        """Plays one. Of one that is interrupted there is what happened until then: where a script
        waits in vain, that is what somebody has to see."""
        began = time.monotonic()
        entries: list[Entry] = []

        def note(found: Entry) -> None:
            if not self._interrupted:  # what the end of all processes adds is of no interest
                entries.append(found)

        try:
            return await play(scenario, self._addresses, note)
        except asyncio.CancelledError:
            return outcome_of(scenario, entries, False, "interrupted", time.monotonic() - began)

    async def _play_live(self, scenario: Scenario) -> Outcome:
        """Plays one, and keeps it; all is told as it happens, since there is no end to wait for."""
        self._printer.rows(report.heading(scenario, 1, 1))
        return await play(scenario, self._addresses, self._tell, self._keep_running)

    def _tell(self, found: Entry) -> None:
        self._printer.rows([report.entry(found)])

    async def _keep_running(self, stage: Stage, passed: bool) -> None:
        word = "passed" if passed else "failed"
        self._printer.rows([report.text(), report.text(f"  {word}", word), report.text()])
        self._printer.rows(_guide(stage))
        self._kept = asyncio.get_running_loop().create_future()
        await self._kept


def _document(outcomes: Sequence[Outcome]) -> dict[str, object]:
    return {
        "version": JSON_VERSION,
        "passed": all(outcome.passed for outcome in outcomes),
        "seconds": round(sum(outcome.seconds for outcome in outcomes), 3),
        "scenarios": [outcome.as_json() for outcome in outcomes],
    }


def _guide(stage: Stage) -> list[report.Row]:
    activator = stage.activator
    places = [
        Place(
            pod.name,
            f"{pod.options.address}:{pod.options.port}",
            f"{pod.options.address}:{pod.options.admin_port}",
        )
        for app in stage.apps
        for pod in app.pods
        if not pod.count("stopped")
    ]
    return guide(
        "{}:{}".format(*activator.traffic),
        "{}:{}".format(*activator.admin),
        str(stage.manifests),
        [app.name for app in stage.apps],
        places,
        {switch for app in stage.apps for switch in app.heeded},
    )
