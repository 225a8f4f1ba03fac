from __future__ import annotations

import re
from pathlib import Path

from activator.scale.families import FAMILIES
from activator.telemetry.families import FAMILIES as OTHERS
from activator.telemetry.families import MetricKind, markdown

ROOT = Path(__file__).parents[3]


def test_the_reference_shows_this_very_table() -> None:
    page = (ROOT / "docs" / "reference.md").read_text()
    shown = re.search(r"<!-- scale metrics -->\n(.*)\n<!-- /scale metrics -->", page, re.DOTALL)
    assert shown
    assert shown[1].strip() == markdown(FAMILIES), (
        "put the output of `python -m activator.scale.families` between the markers"
    )


def test_names_are_unique_and_say_what_they_count() -> None:
    names = {family.name for family in FAMILIES}
    assert len(names) == len(FAMILIES)
    assert not names & {family.name for family in OTHERS}
    for family in FAMILIES:
        assert family.meaning.endswith(".")
        assert (family.kind is MetricKind.COUNTER) == family.name.endswith("_total")
        assert (family.kind is MetricKind.HISTOGRAM) == bool(family.bounds)
