"""A source of objects: reads revisions and their pods, and follows their changes.

The rest of the program knows this interface alone. ``sources`` has the table of all sources. Most
sources pass raw objects to an inventory; a source may also call the sinks itself.
"""

from __future__ import annotations

from typing import Protocol

from activator.records.source_status import SourceStatus


class SourceError(Exception):
    """A source is unusable; the text has its name, the reason and a remedy."""


class Source(Protocol):
    """Reads objects from one place.

    The caller calls ``start``, runs ``run`` as a task, and awaits ``wait_synced`` before it
    accepts traffic. A failing source never removes objects.
    """

    async def start(self) -> None:
        """Check that the source is usable. A source may read all objects here.

        Raises:
            SourceError: the source is unusable.
        """

    async def run(self) -> None:
        """Follow all changes until cancelled, also after failures."""

    async def wait_synced(self) -> None:
        """Return when every object has been read once; ``run`` must be in progress."""

    async def follow_secret(self, name: str) -> None:
        """Follow one Secret of the system namespace, and return after its first read.

        Also returns if there is no such Secret. The source need not read other Secrets.
        """

    def hurry(self) -> None:
        """Shorten all pauses after failures, since a request has begun to wait."""

    def status(self, now: float) -> SourceStatus:
        """Return the state of the source.

        Arguments:
            now: seconds, on the loop's clock.
        """

    async def close(self) -> None:
        """Close the connections that ``start`` opened, also if ``run`` was never called."""
