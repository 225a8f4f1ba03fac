"""Records the changes of replicas: the last one of each Service, counts, and a log line."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from typing import final

from activator.kpa.decision import SENTENCES as RULES
from activator.scale.decisions.conclusions import fields
from activator.scale.decisions.effects import Change
from activator.scale.decisions.record import Counters, Record
from activator.scale.reports.load import Name
from activator.scale.workloads.actuator import Result, Target

logger = logging.getLogger(__name__)


@final
class Changes:
    """Records changes and failures.

    Arguments:
        counters: take the counts.
        clock: seconds, monotonic.
        wall: the time of day.
    """

    def __init__(
        self, counters: Counters, clock: Callable[[], float], wall: Callable[[], datetime]
    ) -> None:
        self._counters = counters
        self._clock = clock
        self._wall = wall

    def count_failure(self, result: Result) -> None:
        """Count a failed request; a result without a problem does not count."""
        if result.problem is not None:
            word = result.problem.value
            self._counters.failures[word] = self._counters.failures.get(word, 0) + 1

    def note(self, name: Name, record: Record, target: Target, before: int, after: int) -> None:
        """Record a change of a Service's replicas.

        Arguments:
            record: of the Service.
            target: its workload.
            before, after: replicas.
        """
        plan = record.decided.plan if record.decided is not None else None
        # An event may show the change, and end its rule, before the API server responds.
        why = record.why or (plan.why if plan is not None else None)
        record.why = None
        word = why.value if why is not None else "unknown"
        record.change = Change(self._wall(), before, after, word)
        if record.cold_since is not None:
            self._counters.cold_starts.observe(self._clock() - record.cold_since)
            record.cold_since = None
        self._counters.changes[word] = self._counters.changes.get(word, 0) + 1
        logger.info(
            "Service %s/%s: %s: %d -> %d replicas: %s",
            *name,
            f"{target.resource.kind} {target.name}",
            before,
            after,
            RULES[why] if why is not None else "decided before",
            extra=fields(name, reason=word, replicas=after),
        )
