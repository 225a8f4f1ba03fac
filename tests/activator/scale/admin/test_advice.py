"""The remedies on the scaler's page: each reason has one, and each command can be filled in."""

from __future__ import annotations

import json
import re

from activator.scale import reasons
from activator.scale.admin import advice
from activator.scale.reasons import ScaleReason


def test_a_command_names_only_what_the_page_knows() -> None:
    names = re.findall(r"\{(\w*)\}", "".join("".join(reason.commands) for reason in ScaleReason))
    assert {*names} == {"namespace", "name", "system"}


def test_the_script_has_the_remedies_and_which_reasons_are_normal() -> None:
    text = advice.script().removeprefix("export const REASONS = ").rstrip(";\n")
    rows = json.loads(text)
    assert rows["two-owners"]["meaning"] == ScaleReason.TWO_OWNERS.sentence
    assert rows["two-owners"]["commands"][0] == "kubectl -n {namespace} get hpa,scaledobject"
    assert {word for word, row in rows.items() if row["quiet"]} == reasons.QUIET - {""}
