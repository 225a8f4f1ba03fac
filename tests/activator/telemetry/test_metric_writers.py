"""Metrics as text, read back by Prometheus' own parser, and as points, which are copies."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from activator.records.counters import Histogram
from activator.telemetry.families import WAIT, Family, MetricKind
from activator.telemetry.metric_writers import Counted, PointWriter, TextWriter, escape

TEXT = TextWriter()
GAUGE = Family("a_gauge", MetricKind.GAUGE, ("label",), "Says\nwhat\\it is.")
HISTOGRAM = Family("a_seconds", MetricKind.HISTOGRAM, ("label",), "Time.", (0.005, 1, 10000))


def parse(text):
    (family,) = text_string_to_metric_families(text)
    return family


def test_help_and_type():
    assert TEXT.header(GAUGE) == "# HELP a_gauge Says\\nwhat\\\\it is.\n# TYPE a_gauge gauge\n"


@pytest.mark.parametrize("value", [0, 1, 0.1, 1e-9, 1e300, 2**53, inf])
def test_values_come_back(value):
    (read,) = parse(TEXT.header(GAUGE) + TEXT.sample(GAUGE, "", value)).samples
    assert read.value == value


def test_infinity_is_written_as_the_format_has_it():
    assert TEXT.sample(GAUGE, "", inf) == "a_gauge +Inf\n"


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_label_comes_back(text):
    (read,) = parse(TEXT.header(GAUGE) + TEXT.sample(GAUGE, f'label="{escape(text)}"', 1)).samples
    assert read.labels == {"label": text}


@given(st.text(st.characters(exclude_categories=["Cs"])), st.lists(st.floats(0, 20000)))
def test_a_histogram_comes_back(label, values):
    histogram = Histogram(HISTOGRAM.bounds)
    for one in values:
        histogram.observe(one)
    text = TEXT.histogram(HISTOGRAM, f'label="{escape(label)}"', histogram)
    samples = {
        (s.name, s.labels.get("le")): s.value for s in parse(TEXT.header(HISTOGRAM) + text).samples
    }
    for bound, written in ((0.005, "0.005"), (1, "1"), (10000, "10000"), (inf, "+Inf")):
        assert samples["a_seconds_bucket", written] == sum(one <= bound for one in values)
    assert samples["a_seconds_count", None] == len(values)
    assert samples["a_seconds_sum", None] == pytest.approx(sum(values))


def test_a_histogram_without_labels_comes_back():
    histogram = Histogram(HISTOGRAM.bounds)
    histogram.observe(0.5)
    text = TEXT.histogram(HISTOGRAM, "", histogram)
    samples = {
        (s.name, s.labels.get("le")): s for s in parse(TEXT.header(HISTOGRAM) + text).samples
    }
    assert samples["a_seconds_bucket", "1"].value == samples["a_seconds_count", None].value == 1
    assert samples["a_seconds_sum", None].labels == {}


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
