"""A scenario: a name, Knative's behaviour, the required behaviour, and a script.

The scripts are in :mod:`activator.lab.scenarios`, by theme. `activator.lab.scenarios` lists
them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from activator.lab.environment import Environment
from activator.lab.plain.environment import PlainEnvironment


@dataclass(frozen=True, slots=True)
class Scenario:
    """A failure or situation of real clusters.

    Attributes:
        number: an argument of ``activator lab``; another scenario never gets this number.
        name: another argument of ``activator lab``: lower case, hyphens.
        title: the event, in one line.
        here: how this activator must behave; the script checks it.
        knative: how Knative's activator behaves; empty for a scenario without Knative.
        script: the script of a scenario with a revision of Knative.
        plain: the script of a scenario without Knative.
        kubernetes: how Kubernetes alone behaves; empty for a scenario with a revision of Knative.
        is_long: it takes more than a minute, so the tests leave it out.
    """

    number: int
    name: str
    title: str
    here: str
    knative: str = ""
    script: Callable[[Environment], Awaitable[None]] | None = None
    plain: Callable[[PlainEnvironment], Awaitable[None]] | None = None
    kubernetes: str = ""
    is_long: bool = False
