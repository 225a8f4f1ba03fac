"""The frames that wait for the link: which of them to keep, and which to send.

Decides which frames to drop while the autoscaler is away or slow. Pure: the time is an argument.
Knows no content of frames.

The autoscaler adds up the reports of a second and dates them by its own clock. Many old reports at
once would look like a burst of requests, and would start pods that no request needs. So frames
become stale. Nothing is lost: each report repeats every revision with requests, so the fresh
reports contain every queued request. The newest frame never becomes stale, since no newer load is
known.

Knative has no counterpart: pkg/activator/stat_reporter.go drops the reports that it cannot send.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

# Each poke is a frame of about 60 bytes, and a thousand revisions may poke in one turn of the loop.
# Reports are large but come once a second, and at most two are fresh.
MAX_FRAMES = 1024


class Frame(NamedTuple):
    """A frame in the backlog.

    Attributes:
        payload: the bytes to send.
        arose: when the frame was queued, seconds.
        on_sent: called when the frame has been sent.
    """

    payload: bytes
    arose: float
    on_sent: Callable[[], None]


def _ignore() -> None:
    pass


class Backlog:
    """A bounded first-in, first-out queue of frames.

    Arguments:
        stale_after: seconds; an older frame is dropped.
        max_frames: the most frames in the queue.

    Attributes:
        dropped: number of dropped frames.
    """

    def __init__(self, stale_after: float, max_frames: int = MAX_FRAMES) -> None:
        self._stale_after = stale_after
        self._max_frames = max_frames
        self._frames: deque[Frame] = deque()
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._frames)

    def push(self, payload: bytes, now: float, on_sent: Callable[[], None] = _ignore) -> None:
        """Queue a frame; a full queue drops the oldest one.

        Arguments:
            now: seconds, on one clock for all calls.
            on_sent: called when the frame has been sent.
        """
        self._frames.append(Frame(payload, now, on_sent))
        self._trim(now)

    def pop(self, now: float) -> Frame | None:
        """Remove and return the next fresh frame, or None; ``now`` is in seconds."""
        self._trim(now)
        return self._frames.popleft() if self._frames else None

    def push_front(self, frame: Frame, now: float) -> None:
        """Return a frame that could not be sent to the front, if it is still fresh."""
        self._frames.appendleft(frame)
        self._trim(now)

    def _trim(self, now: float) -> None:
        frames = self._frames
        while len(frames) > 1 and (
            len(frames) > self._max_frames or now - frames[0].arose > self._stale_after
        ):
            frames.popleft()
            self.dropped += 1
