"""Decides how many pods a service of the toy cluster should have.

One rule: as many pods as the highest concurrency of the last `window` seconds needs. So the first
request makes one pod at once, a burst adds pods at once, and pods leave only when the whole window
was quieter. Must not know processes, manifests or the clock: time is passed in.
Knative's counterpart: pkg/autoscaler/scaling/autoscaler.go, which has a panic window besides.
"""

from __future__ import annotations

import math
from collections import deque

#: Differences of this size between desired pods are noise of floating point.
EPSILON = 1e-9


class Scaler:
    """The desired number of pods of one service, from its statistics."""

    def __init__(self, target: float, max_pods: int, window: float, min_pods: int = 0) -> None:
        """
        Arguments:
            target: requests at a time that one pod should have; above 0.
            max_pods: never more pods than this.
            window: seconds that a load is remembered; after them a silent service goes to zero.
            min_pods: never fewer.

        Raises:
            ValueError: no number of pods satisfies these.
        """
        if target <= 0 or window <= 0 or not 0 <= min_pods <= max_pods:
            raise ValueError(f"{target=}, {window=}, {min_pods=}, {max_pods=}: cannot scale so")
        self._target = target
        self._max_pods = max_pods
        self._min_pods = min_pods
        self._window = window
        # Falling needs from the oldest to the newest: an older one that is not larger than a newer
        # one can never be the window's maximum again, so it is dropped at once.
        self._needs: deque[tuple[float, int]] = deque()

    def observe(self, now: float, concurrency: float, count: float) -> None:
        """Takes one statistic: average requests in the period, and requests that arrived in it.

        A request shorter than the period has an average near 0 and still needs a pod.
        """
        need = math.ceil(concurrency / self._target - EPSILON)
        if count > 0 or concurrency > 0:
            need = max(need, 1)
        while self._needs and self._needs[-1][1] <= need:
            self._needs.pop()
        self._needs.append((now, need))

    def desired(self, now: float) -> int:
        """The number of pods there should be now."""
        while self._needs and self._needs[0][0] + self._window <= now:
            self._needs.popleft()
        need = self._needs[0][1] if self._needs else 0
        return min(max(need, self._min_pods), self._max_pods)

    def next_change(self) -> float | None:
        """When `desired` may fall without a new statistic; None if it will not."""
        return self._needs[0][0] + self._window if self._needs else None
