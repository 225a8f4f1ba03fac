from __future__ import annotations

import re
from enum import Enum
from pathlib import Path

import pytest

from activator.pages import pages
from activator.scale.decisions import reasons
from activator.scale.decisions.plan import Hold
from activator.scale.decisions.reasons import Reason
from activator.scale.workloads.replicas import Problem
from activator.scale.workloads.services import TargetProblem


@pytest.mark.parametrize(
    "word", [*TargetProblem, *(h for h in Hold if h is not Hold.NONE), *Problem], ids=str
)
def test_each_reason_has_a_sentence(word: Enum) -> None:
    if word is Problem.UNSET:  # the actuator handles it
        return
    assert reasons.text(word.value, "") == reasons.SENTENCES[word.value]


def test_a_detail_says_more_than_the_sentence() -> None:
    assert reasons.text("scale-forbidden", "403: no") == "403: no"


def test_the_page_has_each_reason_and_no_other() -> None:
    page = Path(__file__).resolve().parents[4] / "docs/how-to/why-is-my-service-not-scaled.md"
    tables = re.findall(
        r"<!-- (?:lasting|passing) reasons -->(.*?)<!-- /", page.read_text(), re.DOTALL
    )
    words = re.findall(r"^\| `([a-z-]+)` \|", "".join(tables), re.MULTILINE)
    known = {*reasons.SENTENCES, *(reason.value for reason in Reason)}
    assert len(tables) == 2
    assert sorted(words) == sorted(known)
    assert known <= pages().keys()  # `activator reason NAME` prints each
