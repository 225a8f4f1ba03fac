"""What a scenario is: a name, what Knative does, what must happen here, and a script.

The scripts are in :mod:`activator.lab.scenarios`, one a module; `activator.lab.catalogue` lists
them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from activator.lab.stage import Stage


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario that was seen on real clusters.

    Attributes:
        number: by which it can be called; never given to another one.
        name: by which it can be called, too: lower case, hyphens.
        title: what is done, in one line.
        knative: what was seen with Knative's activator.
        ours: what must happen here; the script checks it.
    """

    number: int
    name: str
    title: str
    knative: str
    ours: str
    script: Callable[[Stage], Awaitable[None]]
