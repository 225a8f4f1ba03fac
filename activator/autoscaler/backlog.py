"""The frames that wait for the link: which are kept, which are worth sending.

Decides what is given up when the autoscaler is away or slow. Pure: the time is passed in.
It must not know what a frame holds.

The autoscaler adds up what it hears in a second and dates it by its own clock, so a pile of old
reports sent at once would look like a burst of requests and start pods for nobody. Hence a frame
grows stale. Nothing is lost by that: each report repeats every revision that is still busy, so the
fresh ones hold every request that still waits. The newest frame never grows stale; it is the best
that is known.

Knative has no counterpart: what pkg/activator/stat_reporter.go cannot send is lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

# Each poke is a frame of its own (about 60 bytes), and a thousand revisions may be called in one
# turn of the loop. Reports are large but come once a second, and more than two are never fresh.
MAX_FRAMES = 1024


class Frame(NamedTuple):
    """A frame, when it arose (seconds), and whom to tell when it has been sent."""

    payload: bytes
    arose: float
    on_sent: Callable[[], None]


def _nobody() -> None:
    pass


class Backlog:
    """A bounded first-in, first-out queue of frames; ``dropped`` counts those given up."""

    def __init__(self, stale_after: float, max_frames: int = MAX_FRAMES) -> None:
        self._stale_after = stale_after
        self._max_frames = max_frames
        self._frames: deque[Frame] = deque()
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._frames)

    def push(self, payload: bytes, now: float, on_sent: Callable[[], None] = _nobody) -> None:
        """Queue a frame that arose ``now`` (seconds); the oldest goes when there is no room."""
        self._frames.append(Frame(payload, now, on_sent))
        self._trim(now)

    def pop(self, now: float) -> Frame | None:
        """The next frame worth sending at ``now`` (seconds), or None."""
        self._trim(now)
        return self._frames.popleft() if self._frames else None

    def put_back(self, frame: Frame, now: float) -> None:
        """``frame`` could not be sent after all: it is first in line again, if still fresh."""
        self._frames.appendleft(frame)
        self._trim(now)

    def _trim(self, now: float) -> None:
        frames = self._frames
        while len(frames) > 1 and (
            len(frames) > self._max_frames or now - frames[0].arose > self._stale_after
        ):
            frames.popleft()
            self.dropped += 1
