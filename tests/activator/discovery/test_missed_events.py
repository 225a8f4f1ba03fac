"""Which differences between a list and the inventory count, and which of them last."""

from __future__ import annotations

import pytest

from activator.discovery.inventory import Inventory, ObjectVersion
from activator.discovery.self_check import (
    Comparison,
    Difference,
    MissedEventCounters,
    persistent,
)
from activator.discovery.wire import ListedMetadata
from activator.objects.fields import ObjectKey
from activator.records.source_status import MissedEvents
from tests.activator.discovery.recording import private, revision

KEY = ObjectKey("Endpoints", "default", "a-private")
ONE, TWO = ObjectVersion("u", "1"), ObjectVersion("u", "2")


def listed(name: str | None = "a-private", uid: str = "u", version: str = "1") -> ListedMetadata:
    return ListedMetadata(name, "default", uid, version)


def differences(inventory: Inventory, *objects: ListedMetadata) -> dict[ObjectKey, Difference]:
    comparison = Comparison("Endpoints", inventory)
    for each in objects:
        comparison.take(each)
    for _ in comparison.finish():
        pass
    return comparison.differences


@pytest.mark.parametrize(
    ("objects", "found", "words"),
    [
        ([listed()], None, ""),
        ([listed(version="2")], (ONE, TWO), "known in version 1, the cluster has 2"),
        (
            [listed(uid="v")],
            (ONE, ObjectVersion("v", "1")),
            "another object has its name in the cluster",
        ),
        ([], (ONE, None), "it is not in the cluster any more"),
    ],
)
def test_an_object_that_is_known_is_compared_with_what_is_listed(
    inventory: Inventory,
    objects: list[ListedMetadata],
    found: tuple[ObjectVersion, ObjectVersion | None] | None,
    words: str,
) -> None:
    inventory.apply(private("10.0.0.1", uid="u", version="1"))
    inventory.apply(revision())  # of another kind, which this list does not cover
    assert differences(inventory, *objects) == ({KEY: found} if found else {})
    assert words in "".join(map(str, differences(inventory, *objects).values()))


def test_an_object_that_is_not_known_is_a_difference_unless_it_cannot_be_used(
    inventory: Inventory,
) -> None:
    found = differences(inventory, listed(), listed(name=None), listed(name="a b"))
    assert found == {KEY: (None, ONE)}
    assert str(found[KEY]) == "it is not known here"
    broken = private("10.0.0.1", uid="u", version="1") | {"subsets": 5}
    inventory.apply(broken)
    assert differences(inventory, listed()) == {}


@pytest.mark.parametrize(
    ("first", "second", "lasts"),
    [
        ((ONE, TWO), (ONE, TWO), True),
        ((ONE, TWO), (ONE, ObjectVersion("u", "3")), True),
        ((ONE, None), (ONE, None), True),
        ((None, ONE), (None, TWO), True),
        # It changes all the time, and its events arrive.
        ((ONE, TWO), (TWO, ObjectVersion("u", "3")), False),
        (None, (ONE, TWO), False),
        ((ONE, TWO), None, False),
    ],
)
def test_only_differences_that_occur_twice_without_an_event_last(
    first: tuple[ObjectVersion, ObjectVersion] | None,
    second: tuple[ObjectVersion, ObjectVersion] | None,
    lasts: bool,
) -> None:
    one, two = ({KEY: Difference(*each)} if each else {} for each in (first, second))
    assert bool(persistent(one, two)) is lasts


def test_what_was_found_is_counted_and_what_is_left_is_of_the_last_check() -> None:
    counters = MissedEventCounters()
    counters.record("Endpoints", 3, 1)
    counters.record("Endpoints", 0, 0)
    seen = counters.snapshot()
    counters.record("Endpoints", 1, 1)
    assert seen == MissedEvents({"drifted": 1, "equal": 1}, {"Endpoints": 3}, {"Endpoints": 0})
