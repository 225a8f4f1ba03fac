"""Which requests are traced."""

from __future__ import annotations

import pytest

from activator.settings.config import SETTINGS
from activator.telemetry.sampling import WORDS, sampler
from activator.telemetry.trace_context import Parent

YES = Parent(1, 2, True, b"")
NO = Parent(1, 2, False, b"")
LOW, HIGH = 1 << 127, (1 << 64) - 1


def test_a_rate_of_one_traces_all_and_of_zero_nothing_whatever_the_caller_did():
    assert sampler("", None, 1.0)(NO, HIGH)
    assert not sampler("", None, 0.0)(YES, LOW)


def test_a_rate_between_follows_the_caller_and_decides_by_the_id_without_one():
    quarter = sampler("", None, 0.25)
    assert quarter(YES, HIGH)
    assert not quarter(NO, LOW)
    assert quarter(None, (1 << 62) - 1)
    assert not quarter(None, 1 << 62)


@pytest.mark.parametrize("argument", [0.25, 1.0, 0.0])
def test_the_environments_share_wins_over_the_rate(argument):
    decide = sampler("", argument, 0.5)
    assert decide(None, (1 << 62) - 1) is (argument > 0)
    assert decide(None, 1 << 62) is (argument == 1)


@pytest.mark.parametrize(
    ("word", "yes", "no", "low", "high"),
    [
        ("always_on", 1, 1, 1, 1),
        ("always_off", 0, 0, 0, 0),
        ("traceidratio", 0, 0, 1, 0),
        ("parentbased_always_on", 1, 0, 1, 1),
        ("parentbased_always_off", 1, 0, 0, 0),
        ("parentbased_traceidratio", 1, 0, 1, 0),
    ],
)
def test_the_samplers_of_the_specification(word, yes, no, low, high):
    decide = sampler(word, 0.5, 1.0)
    asked = ((YES, HIGH), (NO, HIGH), (None, LOW), (None, HIGH))
    assert [decide(*each) for each in asked] == [bool(each) for each in (yes, no, low, high)]


def test_a_sampler_without_argument_takes_all():
    assert sampler("traceidratio", None, 0.0)(None, HIGH)


def test_the_setting_takes_these_words_and_no_others():
    (row,) = (row for row in SETTINGS if row.variable == "OTEL_TRACES_SAMPLER")
    assert row.kind.metavar.split("|") == list(WORDS)
