"""The hours of an annotation: days, the clock on the wall, nights, and wrong texts."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from activator.objects.fields import Field, ManifestError
from activator.plain.annotations import HOURS
from activator.plain.awake_hours import NEVER, parse
from tests.rows import in_one_test

OFFICE = "Mon-Fri 08:00-18:00 Europe/Berlin"


def at(text: str, when: str) -> tuple[bool, float]:
    """Return the state at a time in UTC, and the hours until it may change."""
    awake, seconds = parse(text).at(datetime.fromisoformat(when).replace(tzinfo=UTC))
    return awake, seconds / 3600


@in_one_test(
    ("text", "when", "expected"),
    [
        (OFFICE, "2026-01-07 06:59", (False, 1 / 60)),  # a Wednesday in winter: UTC+1
        (OFFICE, "2026-01-07 07:00", (True, 10)),
        (OFFICE, "2026-07-08 06:00", (True, 10)),  # in summer: UTC+2
        (OFFICE, "2026-01-09 17:00", (False, 62)),  # from Friday evening to Monday
        ("Sat,Sun 10:00-12:00", "2026-01-10 11:00", (True, 1)),
        ("Fri-Mon 00:00-24:00", "2026-01-12 23:00", (True, 1)),
        ("Mon 22:00-06:00", "2026-01-13 05:00", (True, 1)),  # from Monday into Tuesday
        ("Mon 22:00-06:00", "2026-01-13 06:00", (False, 6 * 24 + 16)),
        (f"{OFFICE}; Sat 08:00-09:00 UTC", "2026-01-10 08:30", (True, 0.5)),
        # The night in which Berlin's clocks skip 02:00 to 03:00 has an hour less.
        ("Sun 00:00-06:00 Europe/Berlin", "2026-03-28 23:00", (True, 5)),
    ],
)
def test_hours(text: str, when: str, expected: tuple[bool, float]) -> None:
    assert at(text, when) == pytest.approx(expected)


def test_no_hours_never_change() -> None:
    assert NEVER.at(datetime(2026, 1, 1, tzinfo=UTC)) == (False, float("inf"))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("always", "got 'always'"),
        ("Mon 8:00-18:00", "got 'Mon 8:00-18:00'"),
        ("Mon 08:00-25:00", "got 'Mon 08:00-25:00'"),
        ("Mon-Fri 08:00-18:00 Mars/Base", "unknown time zone 'Mars/Base'"),
        ("Mon-Fri 08:00-18:00 ../etc/passwd", "got 'Mon-Fri 08:00-18:00 ../etc/passwd'"),
        (";".join(["Mon 08:00-09:00"] * 17), "got 'Mon 08:00-09:00;Mon"),
    ],
)
def test_a_wrong_text_says_what_is_wrong(text: str, problem: str) -> None:
    with pytest.raises(ManifestError, match="expected spans as in Mon-Fri") as error:
        HOURS(Field(text, "Service shop/hello"))
    assert problem in str(error.value)
