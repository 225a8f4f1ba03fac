"""Plays scenarios: sets up a stage for each, runs its script, and tells how it went.

What a script cannot go on from (nothing came of what it waited for, a process did not start) ends
that scenario alone, as one that did not pass.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from activator.lab.addresses import AddressPool
from activator.lab.local_activator import DidNotStart
from activator.lab.scenario import Scenario
from activator.lab.stage import Overdue, Stage, set_up
from activator.lab.timeline import Entry, Outcome, Timeline

#: Called with the stage and whether the script passed, while all of its processes still run.
Afterwards = Callable[[Stage, bool], Awaitable[None]]


async def play(
    scenario: Scenario,
    addresses: AddressPool,
    live: Callable[[Entry], object] = lambda entry: None,
    afterwards: Afterwards | None = None,
) -> Outcome:
    """Plays one scenario to its end.

    Arguments:
        addresses: where its pods may listen.
        live: called with each entry of the timeline as it comes; must return at once.
        afterwards: runs after the script and before the end of all processes.
    """
    began = time.monotonic()
    timeline = Timeline()
    entries: list[Entry] = []
    error, passed = "", False
    try:
        async with set_up(timeline, addresses) as stage:
            timeline.begin(time.monotonic())
            stage.live = live
            error = await _run_script(scenario, stage)
            await stage.settle()
            passed = timeline.passed and not error
            entries = timeline.entries  # what the end of all processes adds is of no interest
            if afterwards is not None:
                await afterwards(stage, passed)
    except* DidNotStart as group:
        error = "; ".join(map(str, group.exceptions))
    return outcome_of(scenario, entries, passed, error, time.monotonic() - began)


def outcome_of(
    scenario: Scenario, entries: list[Entry], passed: bool, error: str, seconds: float
) -> Outcome:
    """How a scenario went; the arguments are fields of `Outcome`."""
    texts = (scenario.name, scenario.title, scenario.knative, scenario.ours)
    return Outcome(scenario.number, *texts, entries, passed, error, seconds)


async def _run_script(scenario: Scenario, stage: Stage) -> str:
    """What ended the script before its end; empty if nothing did."""
    try:
        await scenario.script(stage)
    except (Overdue, OSError, LookupError) as error:
        return f"{error}" if isinstance(error, Overdue) else f"{type(error).__name__}: {error}"
    return ""
