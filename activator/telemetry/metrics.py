"""Makes metrics of the counters of all parts, only on request.

A scrape gets text in chunks, so that the server can serve requests in between. A metric push gets
points, one at a time. Both come from the same ``Collection``. The module knows no HTTP server.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from activator.telemetry.collection import Collection
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
    """

    def __init__(self, sources: Runtime) -> None:
        self._sources = sources
        self._process = ProcessMetrics()

    def chunks(self) -> Iterator[bytes]:
        """Yield the text in chunks, some of them empty; the caller may pause in between."""
        collection = Collection(self._sources, TextWriter())
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
        collection = Collection(self._sources, PointWriter())
        yield from collection.pieces()
        yield from self._process.points()


def _encode(pieces: list[str]) -> bytes:
    # A name with half a surrogate pair, which JSON can hold, must not end all metrics.
    return "".join(pieces).encode("utf-8", "replace")
