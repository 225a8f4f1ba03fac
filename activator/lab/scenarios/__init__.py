"""All scenarios, by theme, and the search for one by number or name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from activator.lab.scenario import Scenario
from activator.lab.scenarios import plain_pods, plain_scaling, pods, readiness, sharing, waking

_MODULES: Final = (readiness, pods, plain_scaling, plain_pods, sharing, waking)

#: All scenarios, by number.
SCENARIOS: Final[tuple[Scenario, ...]] = tuple(
    sorted(
        (
            each
            for module in _MODULES
            for each in vars(module).values()
            if isinstance(each, Scenario)
        ),
        key=lambda each: each.number,
    )
)


def find(words: Iterable[str]) -> list[Scenario]:
    """Return the scenarios of these numbers or names, in that order; all of them for no word.

    Raises:
        LookupError: no scenario has that number or name. The text lists all names.
    """
    found = [_find(word) for word in words]
    return found or list(SCENARIOS)


def _find(word: str) -> Scenario:
    for scenario in SCENARIOS:
        if word in (scenario.name, str(scenario.number)):
            return scenario
    names = ", ".join(scenario.name for scenario in SCENARIOS)
    last = SCENARIOS[-1].number
    raise LookupError(f"there is no scenario {word!r}; there are 1 to {last}: {names}")
