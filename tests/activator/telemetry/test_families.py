"""The table of metrics in the reference is the table of the code."""

from __future__ import annotations

import re
from pathlib import Path

from activator.telemetry.families import FAMILIES, markdown

PAGE = Path(__file__).parents[3] / "docs" / "reference.md"


def metrics_part():
    found = re.search(r"<!-- metrics -->\n(.*)<!-- /metrics -->", PAGE.read_text(), re.DOTALL)
    assert found, "docs/reference.md must hold <!-- metrics --> … <!-- /metrics -->"
    return found[1]


def test_the_reference_shows_this_very_table():
    assert markdown(FAMILIES) in metrics_part(), (
        "put the output of `python -m activator.telemetry.families` between the markers"
    )


def test_the_reference_lists_no_metric_that_the_code_does_not_have():
    listed = re.findall(r"^\| `(\w+)` \|", metrics_part(), re.MULTILINE)
    assert listed == [family.name for family in FAMILIES]
