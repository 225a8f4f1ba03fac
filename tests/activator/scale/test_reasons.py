from __future__ import annotations

from enum import Enum

import pytest

from activator.scale import reasons
from activator.scale.plan import Hold
from activator.scale.subresource import Problem
from activator.scale.targets import TargetProblem


@pytest.mark.parametrize(
    "word", [*TargetProblem, *(h for h in Hold if h is not Hold.NONE), *Problem], ids=str
)
def test_each_reason_has_a_sentence(word: Enum) -> None:
    if word is Problem.UNSET:  # the actuator handles it
        return
    assert reasons.text(word.value, "") == reasons.SENTENCES[word.value]


def test_a_detail_says_more_than_the_sentence() -> None:
    assert reasons.text("scale-forbidden", "403: no") == "403: no"
