"""The activator that gets the requests of this one, while it has no pod of its own.

With fewer pods than activators, each pod belongs to one activator, which alone counts its requests.
So a limit per pod holds without messages between activators. The others send their requests to the
owner, as to a pod without limit. A request goes from a later address to an earlier one, so it can
never come back. Only for pods without queue-proxy: queue-proxy enforces the limit itself. Knows no
queue. Knative has no counterpart: there several activators send to one pod.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, final

from throttler.capacity import MAX_CAPACITY, ActivatorShare
from throttler.changes import Changes
from throttler.config import RevisionConfig
from throttler.health import PodEvent, PodState
from throttler.model import Endpoint, ReadinessRule
from throttler.pod import PodTracker
from throttler.probe_spec import ProbeSpec

#: The uid of its endpoint. Log lines name the backend by it.
UID: Final = "activator"


@final
class Peer:
    """Another activator as the backend of a revision.

    Attributes:
        tracker: its record while this activator has no pod of its own; else None.
    """

    __slots__ = ("_config", "tracker")

    def __init__(self, config: RevisionConfig) -> None:
        self._config = config
        self.tracker: PodTracker | None = None

    def choose(
        self, pods: list[PodTracker], share: ActivatorShare, changes: Changes, now: float
    ) -> list[PodTracker]:
        """Return the backends that get requests: the pods, or only the activator that has them.

        Arguments:
            pods: the usable pods, sorted by address.
            share: the position of this activator among the activators.
        """
        address = self._owner(pods, share)
        tracker = self.tracker
        if tracker is not None and tracker.address != address:
            tracker.apply(PodEvent.DELISTED, now)
            if not tracker.in_flight:
                tracker.apply(PodEvent.IDLE, now)
                changes.gone.append(tracker)
            self.tracker = tracker = None
        if address and tracker is None:
            # An activator that its Service lists as ready listens. It speaks no TLS there, and the
            # probe of the pods is not its own.
            revision = replace(
                self._config.revision,
                container_concurrency=0,
                readiness=ReadinessRule.PROBE,
                probe=ProbeSpec(),
                tls=False,
            )
            config = RevisionConfig(revision, self._config.reach)
            tracker = self.tracker = PodTracker(config, Endpoint(address, UID), True, now, True)
            tracker.apply(PodEvent.PROBE_PASSED, now)
        if tracker is None or tracker.state is not PodState.HEALTHY:
            return pods
        tracker.limit = MAX_CAPACITY
        return [tracker]

    def _owner(self, pods: Sequence[PodTracker], share: ActivatorShare) -> str:
        """Return the address of the activator that has a pod for this one; empty for none."""
        revision = self._config.revision
        if revision.behind_queue_proxy or not revision.container_concurrency:
            return ""
        return share.addresses[share.index % len(pods)] if 0 < len(pods) <= share.index else ""
