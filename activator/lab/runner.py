"""Run scenarios: set up an environment for each, run its script, and return the outcome.

If a script cannot continue, only its scenario ends, as failed. Examples: an expected event did
not come in time; a process did not start.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

from activator.lab.addresses import AddressPool
from activator.lab.environment import Environment, Overdue, set_up
from activator.lab.local_activator import DidNotStart
from activator.lab.plain import environment as environments
from activator.lab.scenario import Scenario
from activator.lab.timeline import ScenarioOutcome, Timeline, TimelineEntry

#: Called with the environment and whether the script passed, while all processes still run.
Afterwards = Callable[[Environment, bool], Awaitable[None]]
Script = Callable[[], Awaitable[None]]


async def run_scenario(
    scenario: Scenario,
    addresses: AddressPool,
    live: Callable[[TimelineEntry], object] = lambda entry: None,
    afterwards: Afterwards | None = None,
) -> ScenarioOutcome:
    """Run one scenario to its end, and return the outcome.

    Arguments:
        addresses: the addresses for its pods.
        live: called at once with each entry of the timeline; must return at once.
        afterwards: runs after the script and before the end of all processes.
    """
    began = time.monotonic()
    timeline = Timeline()
    entries: list[TimelineEntry] = []
    error, passed = "", False
    try:
        async with _set_up(scenario, timeline, addresses) as (environment, script):
            timeline.begin(time.monotonic())
            environment.live = live
            error = await _run_script(script)
            await environment.settle()
            passed = timeline.passed and not error
            entries = timeline.entries  # without the end of the processes
            if afterwards is not None:
                await afterwards(environment, passed)
    except* DidNotStart as group:
        error = "; ".join(map(str, group.exceptions))
    return outcome_of(scenario, entries, passed, error, time.monotonic() - began)


@asynccontextmanager
async def _set_up(
    scenario: Scenario, timeline: Timeline, addresses: AddressPool
) -> AsyncIterator[tuple[Environment, Script]]:
    """Provide the environment that a scenario needs, and its script."""
    if scenario.plain is not None:
        async with environments.set_up(timeline, addresses) as found:
            yield found.base, partial(scenario.plain, found)
    else:
        assert scenario.script is not None
        async with set_up(timeline, addresses) as environment:
            yield environment, partial(scenario.script, environment)


def outcome_of(
    scenario: Scenario, entries: list[TimelineEntry], passed: bool, error: str, seconds: float
) -> ScenarioOutcome:
    """Return the outcome of a scenario; the arguments are fields of `ScenarioOutcome`."""
    texts = (scenario.name, scenario.title, scenario.knative, scenario.here)
    outcome = ScenarioOutcome(scenario.number, *texts, entries, passed, error, seconds)
    return outcome._replace(kubernetes=scenario.kubernetes)


async def _run_script(script: Script) -> str:
    """Run the script; return the error that ended it early, or an empty text."""
    try:
        await script()
    except (Overdue, OSError, LookupError) as error:
        return f"{error}" if isinstance(error, Overdue) else f"{type(error).__name__}: {error}"
    return ""
