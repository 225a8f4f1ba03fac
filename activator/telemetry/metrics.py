"""Makes metrics of the counters of all parts on request; it costs nothing in between.

A scrape gets text in chunks, so that the server can serve requests in between. A metric push gets
points, one at a time. Both come from the same ``Collection``. The module knows no HTTP server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from activator.records.entries import Entry
from activator.telemetry.collection import Collection, open_now
from activator.telemetry.destination import Identity
from activator.telemetry.metric_writers import Point, PointWriter, TextWriter
from activator.telemetry.process import ProcessMetrics

if TYPE_CHECKING:
    from activator.runtime import Runtime

#: Bytes of a chunk. Making one takes about 0.2 ms, which a request does not notice.
CHUNK = 64 << 10
#: Most pieces of a chunk, for many short or empty pieces in a row.
PIECES = 256


class Metrics:
    """All metrics of one activator.

    Arguments:
        sources: the parts that count; read only while metrics are made.
        concurrency: returns kn_revision_request_concurrency of a revision.
        identity: the identity of this activator, for ``target_info``.
    """

    def __init__(
        self,
        sources: Runtime,
        concurrency: Callable[[Entry], float] = open_now,
        identity: Identity = Identity("activator", "", ""),  # noqa: B008 # never changes
    ) -> None:
        self._sources = sources
        self._concurrency = concurrency
        self._identity = identity
        self._process = ProcessMetrics()

    def render(self) -> bytes:
        """Return the whole text; use ``chunks`` where requests must pass meanwhile."""
        return b"".join(self.chunks())

    def chunks(self) -> Iterator[bytes]:
        """Yield the text in chunks, some of them empty; the caller may pause in between."""
        collection = Collection(self._sources, TextWriter(), self._concurrency, self._identity)
        pieces: list[str] = []
        size = 0
        for piece in collection.pieces():
            pieces.append(piece)
            size += len(piece)
            if size >= CHUNK or len(pieces) >= PIECES:
                yield _encode(pieces)
                pieces.clear()
                size = 0
        pieces.append(self._process.render())
        yield _encode(pieces)

    def points(self) -> Iterator[Point | None]:
        """Yield each series as it is now. None only gives the caller a chance to pause."""
        collection = Collection(self._sources, PointWriter(), self._concurrency, self._identity)
        yield from collection.pieces()
        yield from self._process.points()


def _encode(pieces: list[str]) -> bytes:
    # A name with half a surrogate pair, which JSON can hold, must not end all metrics.
    return "".join(pieces).encode("utf-8", "replace")
