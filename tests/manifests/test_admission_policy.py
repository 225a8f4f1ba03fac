"""The admission policy is that of the readers. tests/cluster sends values to the API server."""

from __future__ import annotations

import json

from activator.objects.readers import Reader
from activator.plain.annotations import (
    ASLEEP,
    KNOWN,
    PREFIX,
    READERS,
    TABLE,
)
from manifests import admission_policy
from tests.rows import in_one_test


def test_the_file_is_generated() -> None:
    assert admission_policy.FILE.read_text() == admission_policy.text(), "run `make policy`"


def test_each_annotation_has_an_expression() -> None:
    assert {PREFIX + name for name in TABLE} < READERS.keys() == set(KNOWN) - {ASLEEP}
    policy, *_ = admission_policy.objects()
    variables = {each["name"]: each["expression"] for each in policy["spec"]["variables"]}
    for name, reader in READERS.items():
        assert isinstance(reader, Reader), f"{name}: a function has no expression for the policy"
        expression = variables[name.removeprefix(PREFIX).replace("-", "_")]
        assert f'[?"{name}"]' in expression
        assert json.dumps(f"expected {reader.allowed}") in expression
        assert f', "{name}"' in variables["problems"]
    assert len(admission_policy.CONTRADICTIONS) == variables["problems"].count(
        "variables.contradiction_"
    )


@in_one_test("wrong", ["(?=", "(?!", "(?<", "\\d", "\\w", "\\s", "\\b", "\\Z"])
def test_no_pattern_has_what_re2_reads_differently(wrong: str) -> None:
    assert wrong.replace("\\", "\\\\") not in admission_policy.text()
