"""Points are copies: later counts do not change them."""

from __future__ import annotations

from activator.records.counters import Histogram
from activator.telemetry.families import WAIT
from activator.telemetry.points import Counted, PointWriter


def test_a_histograms_point_stays_as_it_was():
    writer = PointWriter()
    histogram = Histogram(WAIT.bounds)
    histogram.observe(2)
    labels = writer.joined(writer.labels(("a", "1")), writer.labels(("b", "2")))
    point = writer.histogram(WAIT, labels, histogram)
    histogram.observe(3)
    assert point is not None
    assert isinstance(point.value, Counted)
    assert (sum(point.value.counts), point.value.total) == (1, 2)
    assert point.labels == (("a", "1"), ("b", "2"))
    assert writer.header(WAIT) is None
