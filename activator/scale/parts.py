"""Composes the parts of the scaler that act on decisions: one row of ``PARTS`` for each.

A part gets the context, and returns its views, its effect and its listeners. The parts do not know
each other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from activator.scale.api import Api
from activator.scale.effects import Effect, Guard
from activator.scale.engine import Record
from activator.scale.load import Loads, Name
from activator.scale.objects import View
from activator.scale.services import Services
from activator.scale.settings import ScaleSettings


class Context(NamedTuple):
    """What a part may use.

    Attributes:
        api: sends requests to the API server.
        services: the Services that opt in, with their workloads and pods.
        loads: the reports of the activators.
        record: returns the record of a Service; None while this process does not lead.
        start: starts a coroutine as a task.
        clock: seconds, monotonic.
        is_leader: returns whether this process decides.
        changed: decides again about Services, since the part knows something new.
    """

    settings: ScaleSettings
    api: Api
    services: Services
    loads: Loads
    record: Callable[[Name], Record | None]
    start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
    clock: Callable[[], float]
    is_leader: Callable[[], bool]
    changed: Callable[[Iterable[Name]], None]


@dataclass(frozen=True, slots=True)
class Part:
    """One part.

    Attributes:
        views: take the objects of further kinds, or of known ones, by kind.
        effect: carries out decisions.
        guard: knows the other components; at most one part has one.
        listeners: enters the listeners of the part; the context's value has their addresses by
            name. They are open while the process runs, whether it leads or not.
    """

    views: Mapping[str, View] = field(default_factory=dict)
    effect: Effect | None = None
    guard: Guard | None = None
    listeners: Callable[[], AbstractAsyncContextManager[Mapping[str, str]]] | None = None


#: The parts, in the order in which they get each decision.
PARTS: Final[Sequence[Callable[[Context], Part]]] = ()


def views(services: Services, parts: Iterable[Part]) -> Mapping[str, Sequence[View]]:
    """Return the views of each kind; the views of the Services come first."""
    found: dict[str, list[View]] = {kind: [view] for kind, view in services.views().items()}
    for part in parts:
        for kind, view in part.views.items():
            found.setdefault(kind, []).append(view)
    return found
