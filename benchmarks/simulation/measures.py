"""What one run measures, and how runs with several seeds are combined."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from math import ceil
from statistics import fmean, median

from benchmarks.simulation.pods import Pod


@dataclass(frozen=True, slots=True)
class Result:
    """The figures of one run, or the medians of several.

    Attributes:
        requests: that arrived after the warm-up, and ended.
        failed: part of them whose clients got an error response.
        wait_p50, wait_p99, wait_mean: seconds from a request's arrival until an application works
            on it.
        waited: part that did not get a slot at once.
        waited_beside_idle: part that began to wait while a pod in reach had a free slot.
        imbalance: requests at the busiest pod, divided by the mean; the mean of all samples.
        over_limit: part of the pods with more requests than their limit; mean of all samples.
        at_queue_proxy: part that waited at a pod, over its limit.
        desired_error: mean of |desired - ideal| / ideal replicas; 0 without a scaler.
        desired_over, desired_under: mean parts by which desired replicas are above, or below.
    """

    requests: float
    failed: float
    wait_p50: float
    wait_p99: float
    wait_mean: float
    waited: float
    waited_beside_idle: float
    imbalance: float
    over_limit: float
    at_queue_proxy: float
    desired_error: float = 0.0
    desired_over: float = 0.0
    desired_under: float = 0.0


def combine(results: Sequence[Result]) -> Result:
    """Return the median of each figure."""
    names = [field.name for field in fields(Result)]
    return Result(**{name: median(getattr(one, name) for one in results) for name in names})


class Measures:
    """Counts of one run.

    Attributes:
        requests, failed, waited, beside_idle, at_queue_proxy: see Result, as counts.
    """

    def __init__(self) -> None:
        self.requests = self.failed = self.waited = self.beside_idle = self.at_queue_proxy = 0
        self._waits = array("d")
        self._imbalance: list[float] = []
        self._over_limit: list[float] = []
        self._desired: list[tuple[int, int]] = []

    def served(self, wait: float) -> None:
        """Record a request that a pod has served; ``wait`` in seconds."""
        self.requests += 1
        if wait > 0.0:
            self._waits.append(wait)

    def sample(self, pods: Iterable[Pod]) -> None:
        """Record the load of all serving pods at one moment."""
        counts = [(pod.in_flight, bool(pod.queue)) for pod in pods]
        total = sum(count for count, _ in counts)
        if not total:
            return
        self._imbalance.append(max(count for count, _ in counts) * len(counts) / total)
        self._over_limit.append(sum(over for _, over in counts) / len(counts))

    def decided(self, desired: int, ideal: int) -> None:
        """Record the replicas that the scaler wants, and the number that the true load needs."""
        self._desired.append((desired, ideal))

    def result(self) -> Result:
        """Return the figures."""
        waits = sorted(self._waits)
        total = max(self.requests + self.failed, 1)
        errors = [(have - want) / max(want, 1) for have, want in self._desired] or [0.0]
        return Result(
            requests=total,
            failed=self.failed / total,
            wait_p50=_quantile(waits, self.requests, 0.5),
            wait_p99=_quantile(waits, self.requests, 0.99),
            wait_mean=sum(waits) / max(self.requests, 1),
            waited=self.waited / total,
            waited_beside_idle=self.beside_idle / total,
            imbalance=fmean(self._imbalance or [0.0]),
            over_limit=fmean(self._over_limit or [0.0]),
            at_queue_proxy=self.at_queue_proxy / total,
            desired_error=fmean(map(abs, errors)),
            desired_over=fmean(max(error, 0.0) for error in errors),
            desired_under=fmean(max(-error, 0.0) for error in errors),
        )


def _quantile(waits: Sequence[float], count: int, part: float) -> float:
    """Return a quantile of ``count`` values: the sorted ``waits``, and zeros before them."""
    if not count:
        return 0.0
    at = ceil(part * count) - 1 - (count - len(waits))
    return waits[at] if at >= 0 else 0.0
