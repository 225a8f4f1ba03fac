"""Switches for faults of the API server, and the rights of its user."""

from __future__ import annotations

from collections import Counter, deque
from typing import NamedTuple

from activator.lab.control_plane.resources import ApiKind
from activator.lab.control_plane.status import PlaneResponse

#: The user of all requests, as a ServiceAccount appears in texts.
USER = "system:serviceaccount:activator:activator-scale"


class Right(NamedTuple):
    """A right as RBAC has it; the resource contains the subresource, as in ``pods/log``."""

    verb: str
    group: str
    resource: str


class Faults:
    """The faults of one control plane; all are off at first.

    Attributes:
        is_away: whether connections break and new ones are refused.
        delay: seconds by which each response is late.
        user: the user in texts about missing rights.
        bookmark_period: seconds between two bookmarks of a watch.
    """

    def __init__(self) -> None:
        self.is_away = False
        self.delay = 0.0
        self.user = USER
        self.bookmark_period = 60.0
        self._missing: set[Right] = set()
        self._granted: set[Right] | None = None
        self._conflicts: Counter[str] = Counter()
        self._scripted: dict[tuple[str, str], deque[PlaneResponse]] = {}

    def forbid(self, verb: str, resource: str, group: str) -> None:
        """Refuse a verb on a resource, as ``forbid("patch", "deployments/scale", "apps")``."""
        self._missing.add(Right(verb, group, resource))

    def allow(self, verb: str, resource: str, group: str) -> None:
        """End the effect of `forbid`."""
        self._missing.discard(Right(verb, group, resource))

    def grant_only(self, rights: set[Right] | None) -> None:
        """Refuse everything but these rights; None grants everything again."""
        self._granted = rights

    def may(self, right: Right) -> bool:
        """Return whether the user has a right."""
        return right not in self._missing and (self._granted is None or right in self._granted)

    def conflict(self, resource: ApiKind, times: int = 1) -> None:
        """Refuse the next writes of existing objects of a kind, as if each had just changed."""
        self._conflicts[resource.plural] += times

    def takes_conflict(self, resource: ApiKind) -> bool:
        """Return whether this write is refused, and count it."""
        if not self._conflicts[resource.plural]:
            return False
        self._conflicts[resource.plural] -= 1
        return True

    def script(self, verb: str, resource: str, *responses: PlaneResponse) -> None:
        """Send these responses to the next requests with a verb on a resource."""
        self._scripted.setdefault((verb, resource), deque()).extend(responses)

    def scripted(self, verb: str, resource: str) -> PlaneResponse | None:
        """Return the next response of `script`, and count it; None for none."""
        waiting = self._scripted.get((verb, resource))
        return waiting.popleft() if waiting else None
