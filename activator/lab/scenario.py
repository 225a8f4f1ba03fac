"""A scenario: a name, Knative's behaviour, the required behaviour, and a script that runs."""

from __future__ import annotations

import inspect
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from activator.lab.addresses import AddressPool
from activator.lab.environment import Environment, set_up
from activator.lab.handles import Overdue
from activator.lab.programs import DidNotStart
from activator.lab.timeline import Timeline, TimelineEntry


@dataclass(frozen=True, slots=True)
class Scenario:
    """A failure or situation of real clusters.

    Attributes:
        number: an argument of ``activator lab``; another scenario never gets this number.
        name: another argument of ``activator lab``: lower case, hyphens.
        title: the event, in one line.
        here: how this activator must behave; the script checks it.
        script: drives the environment.
        knative: how Knative's activator behaves; empty for a scenario without Knative.
        kubernetes: how Kubernetes alone behaves; empty for a scenario with a revision of Knative.
        is_long: it takes more than a minute, so the tests leave it out.
    """

    number: int
    name: str
    title: str
    here: str
    script: Callable[[Environment], Awaitable[None]]
    knative: str = ""
    kubernetes: str = ""
    is_long: bool = False


def scenario(
    number: int, name: str, *, is_long: bool = False
) -> Callable[[Callable[[Environment], Awaitable[None]]], Scenario]:
    """Return a decorator that makes a scenario of its script.

    The first line of the script's docstring is the title. One paragraph begins with ``Here:``, and
    one with ``Knative:`` or ``Kubernetes:``.
    """

    def made(script: Callable[[Environment], Awaitable[None]]) -> Scenario:
        title, *rest = inspect.cleandoc(script.__doc__ or "").split("\n\n")
        texts = dict(" ".join(each.split()).split(": ", 1) for each in rest)
        return Scenario(
            number,
            name,
            title.removesuffix("."),
            texts["Here"],
            script,
            texts.get("Knative", ""),
            texts.get("Kubernetes", ""),
            is_long,
        )

    return made


class ScenarioOutcome(NamedTuple):
    """The outcome of a scenario.

    Attributes:
        error: why the script did not reach its end, ``interrupted`` for a signal; else empty.
        seconds: from the start to the end of the last process.
    """

    scenario: Scenario
    entries: list[TimelineEntry]
    passed: bool
    error: str
    seconds: float

    @property
    def outcome(self) -> str:
        """``passed``, ``failed`` or ``interrupted``."""
        if self.error == "interrupted":
            return self.error
        return "passed" if self.passed else "failed"

    def as_json(self) -> dict[str, Any]:
        """Return the JSON object that docs/how-to/lab.md describes."""
        return {
            "number": self.scenario.number,
            "name": self.scenario.name,
            "title": self.scenario.title,
            "knative": self.scenario.knative,
            "passed": self.passed,
            "outcome": self.outcome,
            "error": self.error or None,
            "seconds": round(self.seconds, 3),
            "kubernetes": self.scenario.kubernetes,
            "ours": self.scenario.here,
            "timeline": [entry.as_json() for entry in self.entries],
        }


#: Called with the environment and whether the script passed, while all processes still run.
Afterwards = Callable[[Environment, bool], Awaitable[None]]


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
        async with set_up(timeline, addresses, is_plain=not scenario.knative) as environment:
            timeline.begin(time.monotonic())
            environment.live = live
            error = await _run_script(scenario, environment)
            await environment.settle()
            passed = timeline.passed and not error
            entries = timeline.entries  # without the end of the processes
            if afterwards is not None:
                await afterwards(environment, passed)
    except* DidNotStart as group:
        error = "; ".join(map(str, group.exceptions))
    return ScenarioOutcome(scenario, entries, passed, error, time.monotonic() - began)


async def _run_script(scenario: Scenario, environment: Environment) -> str:
    """Run the script; return the error that ended it early, or an empty text."""
    try:
        await scenario.script(environment)
    except (Overdue, OSError, LookupError) as error:
        return f"{error}" if isinstance(error, Overdue) else f"{type(error).__name__}: {error}"
    return ""
