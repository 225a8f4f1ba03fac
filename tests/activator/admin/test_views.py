"""The fields of the API's responses: each has a description of its own."""

from __future__ import annotations

from typing import Annotated, TypedDict, get_args, get_type_hints, is_typeddict

import msgspec

from activator.admin.openapi import describe
from activator.admin.views import activators, details, revisions
from tests.guards import expect_none
from throttler.reason import Reason

MODULES = (activators, details, revisions)
VIEWS = {each for module in MODULES for each in vars(module).values() if is_typeddict(each)}


def test_each_field_says_what_it_means() -> None:
    expect_none(
        f"{view.__module__}: {view.__name__}.{name} has no description"
        for view in VIEWS
        for name, hint in get_type_hints(view, include_extras=True).items()
        if not get_args(hint)[1]
    )


def test_a_closed_set_is_one_to_clients_as_well() -> None:
    class View(TypedDict):
        open: Annotated[str, "anything"]
        closed: Annotated[str | None, "why", (Reason.AT_CAPACITY, "other", None)]

    _, schemas = msgspec.json.schema_components((View,))
    describe(schemas["View"], View)
    fields = schemas["View"]["properties"]
    assert fields["closed"]["enum"] == ["at-capacity", "other", None]
    assert "enum" not in fields["open"]


def test_for_what_a_request_waits_it_can_fail() -> None:
    assert set(revisions.WAITING) < set(revisions.FAILING)
