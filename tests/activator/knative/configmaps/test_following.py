"""ConfigMaps key by key: defaults, the effect of a wrong key, and its log line."""

from __future__ import annotations

import logging

import pytest

from activator.knative.configmaps.following import (
    ConfigMapReader,
    Followed,
)
from activator.settings.values import BOOLEAN, TEXT, choice

COLOUR = choice("red", "green")


def read(reader: ConfigMapReader, last_good: tuple[str, bool, str]) -> tuple[str, bool, str]:
    """Read one key that stands alone, and two that belong together."""
    colour = reader.settle(reader.read("colour", COLOUR, "red"), last_good[0])
    on, where = reader.read("on", BOOLEAN, False), reader.read("where", TEXT, "")
    if on and not where:
        reader.refuse("where", "on is true, which needs a place")
    return (colour, *reader.settle((on, where), last_good[1:]))


DEFAULT = ("red", False, "")


@pytest.fixture
def heard() -> list[tuple[str, bool, str]]:
    return []


@pytest.fixture
def followed(heard: list[tuple[str, bool, str]]) -> Followed[tuple[str, bool, str]]:
    return Followed("config-things", read, DEFAULT, heard.append)


def test_absent_keys_have_defaults_and_unknown_keys_mean_nothing(followed, heard) -> None:
    followed.update({"_example": "colour: blue", "color": "blue"})
    assert (followed.value, followed.problems, heard) == (DEFAULT, {}, [])


def test_a_change_is_reported_once(followed, heard) -> None:
    followed.update({"colour": "green"})
    followed.update({"colour": "green"})
    followed.update({})
    assert heard == [("green", False, ""), DEFAULT]


def test_a_wrong_key_keeps_its_last_good_value_and_the_others_are_taken(followed) -> None:
    followed.update({"colour": "green"})
    followed.update({"colour": "blue", "on": "true", "where": "here"})
    assert followed.value == ("green", True, "here")


def test_keys_that_belong_together_are_taken_together_or_not_at_all(followed) -> None:
    followed.update({"on": "true", "where": "here"})
    followed.update({"on": "yes", "where": "there"})
    assert followed.value == ("red", True, "here")
    followed.update({"on": "true"})
    assert followed.value == ("red", True, "here")
    assert list(followed.problems) == ["where"]


def test_a_wrong_key_from_the_start_has_its_default(followed) -> None:
    followed.update({"colour": "blue", "on": "true", "where": "x"})
    assert followed.value == ("red", True, "x")


def test_the_log_names_the_configmap_the_key_the_value_and_what_stays(
    followed, caplog: pytest.LogCaptureFixture
) -> None:
    followed.update({"colour": "green"})
    followed.update({"colour": "blue"})
    (line,) = caplog.messages
    assert line == (
        "ConfigMap config-things, key colour: 'blue' cannot be used: accepted is one of red, "
        "green; 'green' stays in force"
    )


def test_the_log_says_a_problem_once_and_when_it_is_over(
    followed, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    followed.update({"colour": "blue"})
    followed.update({"colour": "blue", "where": "x"})
    assert len(caplog.messages) == 1
    followed.update({"colour": "pink"})
    assert "'pink'" in caplog.messages[1]
    followed.update({"colour": "green"})
    assert caplog.messages[2:] == ["ConfigMap config-things, key colour: valid again"]
    assert followed.problems == {}


def test_a_long_value_does_not_hide_the_message(followed, caplog: pytest.LogCaptureFixture) -> None:
    followed.update({"colour": "x" * 1_000_000})
    assert len(caplog.messages[0]) < 400
    assert "accepted is one of red, green" in caplog.messages[0]


def test_a_line_break_in_a_value_does_not_make_a_line_of_the_log(
    followed, caplog: pytest.LogCaptureFixture
) -> None:
    followed.update({"colour": "green\n"})
    assert "'green\\n' cannot be used" in caplog.messages[0]


def test_whether_it_was_ever_there_is_known(followed) -> None:
    assert not followed.seen
    followed.update({})
    assert followed.seen
