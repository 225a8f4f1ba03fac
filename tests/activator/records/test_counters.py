"""The counters of each revision."""

from __future__ import annotations

from itertools import product

import pytest

from activator.records.counters import (
    DURATION_BOUNDS,
    OUTCOMES,
    SIZE_BOUNDS,
    WAIT_BOUNDS,
    Histogram,
    HttpCounters,
    RevisionCounters,
)
from tests.rows import in_one_test


@in_one_test(
    ("value", "index"),
    [(-1, 0), (0, 0), (0.5, 0), (1, 0), (1.5, 1), (10, 1), (10.001, 2), (1e12, 2)],
)
def test_a_value_is_counted_below_the_first_bound_that_it_does_not_exceed(value, index):
    histogram = Histogram((1, 10))
    histogram.observe(value)
    assert histogram.counts == [int(i == index) for i in range(3)]


@pytest.mark.parametrize("seconds", [0.0, 0.004, 0.005, 0.0050001, 0.01, 10, 11])
def test_a_request_is_counted_as_any_other_value(seconds):
    counters, plain = HttpCounters(), Histogram(DURATION_BOUNDS)
    counters.observe(seconds, 0, 0)
    plain.observe(seconds)
    assert counters.duration.counts == plain.counts
    assert counters.duration.total == plain.total


def test_any_mix_of_requests_is_counted_as_by_histograms_alone():
    counters = HttpCounters()
    plain = Histogram(DURATION_BOUNDS), Histogram(SIZE_BOUNDS), Histogram(SIZE_BOUNDS)
    sizes = (0, 6, 6, 6, 12_000, 6, 0, 0, -1, 6)
    for turn in range(3):
        for seconds, request_size, size in product((0.001, 0.3), (-1, 0, 10), sizes):
            counters.observe(seconds, request_size, size)
            counters.observe_head(seconds, request_size)
            for histogram, value in zip(plain, (seconds, request_size, size), strict=True):
                histogram.observe(value)
            plain[0].observe(seconds)
            plain[1].observe(request_size)
        if turn:  # counts are read, and counting goes on
            found = counters.duration, counters.request_size, counters.response_size
            assert [each.counts for each in found] == [each.counts for each in plain]
            assert [each.total for each in found] == pytest.approx([each.total for each in plain])


def test_the_total_is_the_sum_of_what_is_known():
    histogram = Histogram((1, 10))
    for value in (-1, 0, 2, 40):
        histogram.observe(value)
    assert histogram.total == 42
    assert sum(histogram.counts) == 4


def test_an_empty_body_is_in_the_bucket_of_its_own():
    histogram = Histogram(SIZE_BOUNDS)
    histogram.observe(0)
    histogram.observe(1)
    assert histogram.counts[:2] == [1, 1]


def test_waits_are_distinguished_up_to_the_longest_time_out():
    histogram = Histogram(WAIT_BOUNDS)
    histogram.observe(299)
    histogram.observe(601)
    assert histogram.counts[-1] == 1
    assert sum(histogram.counts) == 2


def test_each_kind_of_request_has_its_own_counters():
    counters = RevisionCounters()
    one = counters.server_of((b"GET", 1, 200))
    assert counters.server_of((b"GET", 1, 200)) is one
    assert counters.server_of((b"GET", 1, 504)) is not one
    assert counters.server_of((b"GET", 0, 200)) is not one


def test_a_pod_that_is_gone_leaves_no_series():
    counters = RevisionCounters()
    counters.client_of(("10.0.0.1:8012", b"GET", 1, 200))
    counters.client_of(("10.0.0.1:8012", b"POST", 1, 500))
    kept = counters.client_of(("10.0.0.2:8012", b"GET", 1, 200))

    counters.remove_pod("10.0.0.1:8012")

    assert counters.client == {("10.0.0.2:8012", b"GET", 1, 200): kept}


def test_requeues_are_counted_by_cause():
    counters = RevisionCounters()
    for cause in ("connect-failed", "connect-failed", "connection-lost"):
        counters.requeued(cause)
    assert counters.requeues == {"connect-failed": 2, "connection-lost": 1}


def test_every_outcome_is_there_from_the_start():
    assert RevisionCounters().outcomes == dict.fromkeys(OUTCOMES, 0)


def test_a_request_is_counted_in_each_histogram():
    counters, expected = HttpCounters(), HttpCounters()
    for seconds, request_size, response_size in ((0.0, -1, 0), (0.3, 20, 7), (99.0, 0, 20_000)):
        counters.observe(seconds, request_size, response_size)
        expected.duration.observe(seconds)
        expected.request_size.observe(request_size)
        expected.response_size.observe(response_size)
    for name in ("duration", "request_size", "response_size"):
        ours, theirs = getattr(counters, name), getattr(expected, name)
        assert (ours.counts, ours.total) == (theirs.counts, theirs.total)
