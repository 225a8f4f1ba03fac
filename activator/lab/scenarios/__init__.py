"""All scenarios, by theme, and the search for one by number or name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from activator.lab.scenario import Scenario
from activator.lab.scenarios import plain, pods, policies, readiness

_MODULES: Final = (readiness, pods, plain, policies)

_FOUND: Final = [
    each for module in _MODULES for each in vars(module).values() if isinstance(each, Scenario)
]
#: All scenarios, by number.
SCENARIOS: Final = tuple(sorted(_FOUND, key=lambda each: each.number))


def find(words: Sequence[str]) -> list[Scenario]:
    """Return the scenarios of these numbers or names, in that order; all of them for no word.

    Raises:
        LookupError: no scenario has that number or name. The text lists all names.
    """
    known = {word: each for each in SCENARIOS for word in (each.name, str(each.number))}
    for word in words:
        if word not in known:
            names, last = ", ".join(each.name for each in SCENARIOS), SCENARIOS[-1].number
            raise LookupError(f"there is no scenario {word!r}; there are 1 to {last}: {names}")
    return [known[word] for word in words] or list(SCENARIOS)
