"""Turns what all parts count into metrics when somebody asks; costs nothing in between.

Prometheus gets text, in chunks, so that whoever sends it can let requests pass in between. Who
pushes metrics gets points, one at a time. Both come from the same ``Collection``. Knows no HTTP
server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from activator.records.entries import Entry
from activator.telemetry.collection import Collection, held_now
from activator.telemetry.destination import Identity
from activator.telemetry.exposition import TextWriter
from activator.telemetry.points import Point, PointWriter
from activator.telemetry.process import ProcessMetrics
from activator.telemetry.sources import Sources

#: Bytes of a chunk: makes one of about 0.2 ms, which a request does not notice.
CHUNK = 64 << 10
#: Pieces of a chunk at most, for long rows of short (or no) lines.
PIECES = 256


class Metrics:
    """All metrics of one activator.

    Arguments:
        sources: the parts that count; read only while metrics are made.
        concurrency: gives kn_revision_request_concurrency of a revision.
        identity: who we are, for ``target_info``.
    """

    def __init__(
        self,
        sources: Sources,
        concurrency: Callable[[Entry], float] = held_now,
        identity: Identity = Identity("activator", "", ""),  # noqa: B008 # never changes
    ) -> None:
        self._sources = sources
        self._concurrency = concurrency
        self._identity = identity
        self._process = ProcessMetrics()

    def render(self) -> bytes:
        """Return the whole text; with many revisions ``chunks`` is kinder to others."""
        return b"".join(self.chunks())

    def chunks(self) -> Iterator[bytes]:
        """Yield the text bit by bit; the caller may let others run in between.

        Some chunks may be empty.
        """
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
        """Yield each series as it is now; None only gives the caller a chance to pause."""
        collection = Collection(self._sources, PointWriter(), self._concurrency, self._identity)
        yield from collection.pieces()
        yield from self._process.points()


def _encode(pieces: list[str]) -> bytes:
    # A name with half a surrogate pair, which JSON can hold, must not end all metrics.
    return "".join(pieces).encode("utf-8", "replace")
