"""A source of objects: reads revisions and their pods, and follows their changes.

The rest of the program knows this interface alone. ``sources`` has the table of all sources. Most
sources pass raw objects to an inventory; a source may also call the sinks itself.
"""

from __future__ import annotations

from typing import Protocol

from activator.records.source_status import SourceStatus


class SourceError(Exception):
    """A source cannot be used at all. The text says which one, why, and what to do."""


class Source(Protocol):
    """Reads objects from one place.

    The caller calls ``start``, runs ``run`` as a task, and awaits ``wait_synced`` before it
    accepts traffic. A failing source never removes what is known.
    """

    async def start(self) -> None:
        """Check that the source can be used; a source that can do so reads all objects.

        Raises:
            SourceError: it cannot be used.
        """

    async def run(self) -> None:
        """Follow all changes until cancelled, whatever fails."""

    async def wait_synced(self) -> None:
        """Return when every object has been read once; needs ``run`` to be under way."""

    async def follow_secret(self, name: str) -> None:
        """Follow one Secret of the system namespace, and return when it has been read.

        Returns if there is no such Secret, too. Other Secrets may be left unread.
        """

    def hurry(self) -> None:
        """Cut all pauses after failures: a request has begun to wait."""

    def status(self, now: float) -> SourceStatus:
        """Return the state of the source.

        Arguments:
            now: seconds, on the loop's clock.
        """

    async def close(self) -> None:
        """Release what ``start`` has opened, also if ``run`` was never called."""
