"""Calculate how many pods a service of the toy cluster should have.

The number follows the highest concurrency of the last `window` seconds. So the first request
starts a pod at once, and a burst adds pods at once. The number falls only after a whole window
with less load.
Knative's counterpart: pkg/autoscaler/scaling/autoscaler.go, which also has a panic window.
"""

from __future__ import annotations

import math
from collections import deque

#: Tolerance for rounding errors of floating point numbers.
EPSILON = 1e-9


class ToyScaler:
    """The desired number of pods of one service, from its statistics."""

    def __init__(self, target: float, max_pods: int, window: float, min_pods: int = 0) -> None:
        """
        Arguments:
            target: requests at a time that one pod should have; above 0.
            max_pods: the largest number of pods.
            window: seconds without load after which a service scales to zero.
            min_pods: the smallest number of pods.

        Raises:
            ValueError: the arguments contradict each other.
        """
        if target <= 0 or window <= 0 or not 0 <= min_pods <= max_pods:
            raise ValueError(f"{target=}, {window=}, {min_pods=}, {max_pods=}: cannot scale so")
        self._target = target
        self._max_pods = max_pods
        self._min_pods = min_pods
        self._window = window
        # Decreasing needs from oldest to newest. An older need that is not larger than a newer one
        # can never be the maximum again, so `observe` removes it.
        self._needs: deque[tuple[float, int]] = deque()

    def observe(self, now: float, concurrency: float, count: float) -> None:
        """Add a statistic: average concurrency of a period, and requests that arrived in it.

        A request shorter than the period has an average near 0 and still needs a pod.
        """
        need = math.ceil(concurrency / self._target - EPSILON)
        if count > 0 or concurrency > 0:
            need = max(need, 1)
        while self._needs and self._needs[-1][1] <= need:
            self._needs.pop()
        self._needs.append((now, need))

    def desired(self, now: float) -> int:
        """Return the desired number of pods now."""
        while self._needs and self._needs[0][0] + self._window <= now:
            self._needs.popleft()
        need = self._needs[0][1] if self._needs else 0
        return min(max(need, self._min_pods), self._max_pods)

    def next_change(self) -> float | None:
        """Return when `desired` may fall without a new statistic; None for never."""
        return self._needs[0][0] + self._window if self._needs else None
