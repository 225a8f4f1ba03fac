"""Makes metrics of the counters of all parts, only on request.

A scrape gets text in chunks, so that the server can serve requests in between. A metric push gets
points, one at a time. Both come from the same ``Collection``. The module knows no HTTP server.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from activator.telemetry.collection import Collection
from activator.telemetry.metric_writers import Point, PointWriter, TextWriter, in_chunks
from activator.telemetry.process import ProcessMetrics

if TYPE_CHECKING:
    from activator.runtime import Runtime


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
        yield from in_chunks(collection.pieces())
        yield self._process.render().encode()

    def points(self) -> Iterator[Point | None]:
        """Yield each series as it is now. None only gives the caller a chance to pause."""
        collection = Collection(self._sources, PointWriter())
        yield from collection.pieces()
        yield from self._process.points()
