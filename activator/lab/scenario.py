"""A scenario: a name, Knative's behaviour, the required behaviour, and a script.

The scripts are in :mod:`activator.lab.scenarios`, one per module. `activator.lab.catalogue` lists
them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from activator.lab.environment import Environment


@dataclass(frozen=True, slots=True)
class Scenario:
    """A failure or situation of real clusters.

    Attributes:
        number: an argument of ``activator lab``; another scenario never gets this number.
        name: another argument of ``activator lab``: lower case, hyphens.
        title: the event, in one line.
        knative: how Knative's activator behaves.
        here: how this activator must behave; the script checks it.
    """

    number: int
    name: str
    title: str
    knative: str
    here: str
    script: Callable[[Environment], Awaitable[None]]
