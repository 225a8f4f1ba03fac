from __future__ import annotations

import re
from pathlib import Path

from activator.pages import pages
from activator.scale import reasons
from activator.scale.reasons import ScaleReason


def test_each_reason_has_a_sentence_or_a_finding_with_its_note() -> None:
    for reason in ScaleReason:
        assert reasons.text(reason, "") == (reason.sentence or reason)
        assert reason.advice


def test_a_detail_says_more_than_the_sentence() -> None:
    assert reasons.text("scale-forbidden", "403: no") == "403: no"


def test_the_page_has_each_reason_and_no_other() -> None:
    page = Path(__file__).resolve().parents[4] / "docs/how-to/why-is-my-service-not-scaled.md"
    tables = re.findall(
        r"<!-- (?:lasting|passing) reasons -->(.*?)<!-- /", page.read_text(), re.DOTALL
    )
    words = re.findall(r"^\| `([a-z-]+)` \|", "".join(tables), re.MULTILINE)
    known = {reason.value for reason in ScaleReason}
    assert len(tables) == 2
    assert sorted(words) == sorted(known)
    assert known <= pages().keys()  # `activator reason NAME` prints each
