"""The tables of the API's response fields; the reference has the tables of the code."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypedDict

import pytest

from activator.admin import view_tables
from activator.admin.views.fields import says

PAGE = (Path(__file__).parents[3] / "docs" / "reference.md").read_text()
HINT = "python -m activator.admin.view_tables prints what belongs there"


@pytest.mark.parametrize(("heading", "view"), view_tables.TABLES)
def test_the_reference_has_the_tables(heading: str, view: type) -> None:
    assert f"\n{view_tables.table(heading, view)}\n\n" in PAGE, HINT


def test_the_reference_has_the_rules() -> None:
    assert f"\n{view_tables.rules()}\n\n" in PAGE, HINT


def test_a_field_is_listed_with_its_closed_set() -> None:
    class View(TypedDict):
        plain: Annotated[int, says("how many")]
        word: Annotated[str | None, says("which", ("a", "b", None))]

    assert view_tables.table("field", View).splitlines()[2:] == [
        "| `plain` | how many |",
        "| `word` | `a`, `b`: which |",
    ]
