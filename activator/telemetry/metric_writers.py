"""Writes metrics: as Prometheus' text, or as points that a thread sends to a collector."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate
from math import inf
from typing import NamedTuple, Protocol, TypeVar

from activator.records.counters import Histogram
from activator.telemetry.families import Family

#: Bytes of a chunk. Making one takes about 0.2 ms, which a request does not notice.
CHUNK = 64 << 10
#: Most pieces of a chunk, for many short or empty pieces in a row.
PIECES = 256

L = TypeVar("L")
P = TypeVar("P")


class MetricWriter(Protocol[L, P]):
    """Makes text or points of metrics: pieces ``P``.

    ``L`` is its form of labels, which many series share.
    """

    nothing: P
    """The empty piece."""

    def labels(self, *pairs: tuple[str, str]) -> L:
        """Return labels in the writer's form."""

    def joined(self, one: L, other: L) -> L:
        """Return the labels of both arguments; neither is empty."""

    def header(self, family: Family) -> P:
        """Return the piece before the series of a metric."""

    def sample(self, family: Family, labels: L, value: float) -> P:
        """Return the piece of one number."""

    def histogram(self, family: Family, labels: L, histogram: Histogram) -> P:
        """Return the piece of one histogram, as it is now."""


#: Placeholder of the labels in a template. They are inserted last, as a value may contain it.
_LABELS = "\0"


class TextWriter:
    """Writes Prometheus' text format, version 0.0.4, fast.

    prometheus-client makes an object for every line, and took 1.2 s for a thousand revisions with
    traffic. This class takes 60 ms for more text, including the time to send it.
    Source: https://prometheus.io/docs/instrumenting/exposition_formats/
    """

    nothing: str = ""

    def __init__(self) -> None:
        self._histograms: dict[str, str] = {}  # the template of each metric

    def labels(self, *pairs: tuple[str, str]) -> str:
        """Return labels in their written form: ``name="value"``, comma-separated."""
        return ",".join([f'{name}="{escape(value)}"' for name, value in pairs])

    def joined(self, one: str, other: str) -> str:
        """Return all labels of two written forms; neither is empty."""
        return f"{one},{other}"

    def header(self, family: Family) -> str:
        """Return the lines that precede the samples of a metric."""
        meaning = family.meaning.replace("\\", r"\\").replace("\n", r"\n")
        return f"# HELP {family.name} {meaning}\n# TYPE {family.name} {family.kind.value}\n"

    def sample(self, family: Family, labels: str, value: float) -> str:
        """Return the line of one sample.

        Arguments:
            labels: in their written form; may be empty.
            value: finite or positive infinity.
        """
        number = "+Inf" if value == inf else value
        return f"{family.name}{{{labels}}} {number}\n" if labels else f"{family.name} {number}\n"

    def histogram(self, family: Family, labels: str, histogram: Histogram) -> str:
        """Return the lines of one series; ``labels`` as for ``sample``."""
        template = self._histograms.get(family.name)
        if template is None:
            template = self._histograms[family.name] = _histogram_template(family)
        counts = (*accumulate(histogram.counts),)
        text = template % (*counts, histogram.total, counts[-1])
        if not labels:
            text = text.replace(f"{_LABELS},", "")
        return text.replace(_LABELS, labels)


def escape(value: str) -> str:
    """Return a label's value, escaped for use between quotes."""
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def in_chunks(pieces: Iterable[str]) -> Iterator[bytes]:
    """Yield text in chunks, some of them empty; the caller may pause in between."""
    chunk: list[str] = []
    size = 0
    for piece in pieces:
        chunk.append(piece)
        size += len(piece)
        if size >= CHUNK or len(chunk) >= PIECES:
            yield _encode(chunk)
            chunk.clear()
            size = 0
    yield _encode(chunk)


def _encode(pieces: list[str]) -> bytes:
    # A name with half a surrogate pair, which JSON can hold, must not end all metrics.
    return "".join(pieces).encode("utf-8", "replace")


def _histogram_template(family: Family) -> str:
    name = family.name
    bounds = [*(f"{bound:g}" for bound in family.bounds), "+Inf"]
    lines = [f'{name}_bucket{{{_LABELS},le="{bound}"}} %d\n' for bound in bounds]
    lines += [f"{name}_sum{{{_LABELS}}} %s\n", f"{name}_count{{{_LABELS}}} %d\n"]
    return "".join(lines)


Pairs = tuple[tuple[str, str], ...]


class Counted(NamedTuple):
    """A histogram at one moment.

    Attributes:
        counts: by bucket, not cumulative; the last bucket has the values above all bounds.
        total: the sum of the values.
    """

    counts: tuple[int, ...]
    total: float


class Point(NamedTuple):
    """One series at one moment."""

    family: Family
    labels: Pairs
    value: float | Counted


class PointWriter:
    """Makes points: numbers with their metric and labels, copied for use in a thread.

    Making one takes half a microsecond. ``otlp`` converts points.
    """

    nothing: Point | None = None

    def labels(self, *pairs: tuple[str, str]) -> Pairs:
        return pairs

    def joined(self, one: Pairs, other: Pairs) -> Pairs:
        return one + other

    def header(self, family: Family) -> Point | None:
        """Return nothing: a point carries its metric itself."""
        return None

    def sample(self, family: Family, labels: Pairs, value: float) -> Point | None:
        return Point(family, labels, value)

    def histogram(self, family: Family, labels: Pairs, histogram: Histogram) -> Point | None:
        return Point(family, labels, Counted((*histogram.counts,), histogram.total))
