"""The pages about reasons agree with the table of reasons in throttler/reason.py.

``python -m tests.test_reasons`` writes the tables of the pages from that table.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from activator.discovery.inventory import INVALID
from activator.pages import pages
from activator.plain.problems import ProblemReason
from activator.proxy.message import own_responses
from activator.proxy.message.own_responses import OwnResponse
from activator.scale.reasons import ScaleReason
from tests.howto.pages import ANY
from tests.rows import in_one_test
from throttler.errors import RevisionNotFound, WaitTooLong
from throttler.reason import ROWS, TABLE, Reason, ReasonRow, RequestState

DOCS: Final = Path(__file__).resolve().parents[1] / "docs"
PAGES: Final = DOCS / "reasons"
HINT: Final = "python -m tests.test_reasons writes the tables"
_TABLE: Final = re.compile(r"(?<=<!-- reasons -->\n).*?(?=<!-- /reasons -->)", re.DOTALL)


def _status(row: ReasonRow) -> str:
    return str(row.status or "4xx, 5xx")


def index() -> str:
    """Return the table of all reasons."""
    rows = (
        f"| [`{row.reason.value}`]({row.reason.value}.md) | {_status(row)} | {row.request.value} "
        f"| {row.meaning} |\n"
        for row in TABLE
    )
    return "| reason | status | request | meaning |\n|---|---|---|---|\n" + "".join(rows)


#: Pages with a generated table.
GENERATED: Final[dict[Path, Callable[[], str]]] = {
    PAGES / "README.md": index,
}


@pytest.mark.parametrize("page", GENERATED, ids=lambda page: page.name)
def test_a_page_has_the_table_of_the_code(page: Path) -> None:
    found = _TABLE.search(page.read_text())
    assert found is not None
    assert found[0] == GENERATED[page](), HINT


def test_each_reason_has_one_row_in_order() -> None:
    assert [row.reason for row in TABLE] == list(Reason)


@in_one_test("row", TABLE)
def test_a_row_has_whole_sentences_and_steps_for_clusters_and_folders(row: ReasonRow) -> None:
    assert row.meaning[0].isupper()
    assert row.meaning.endswith(".")
    assert row.advice[0].isupper()
    assert row.advice.endswith(".")
    queued = row.request is RequestState.QUEUED
    assert bool(row.commands) == bool(row.in_folder) == queued
    assert not queued or row.status == 504


@in_one_test(
    "reply",
    [
        own_responses.not_found(RevisionNotFound("default", "hello")),
        own_responses.queue_full("total-depth"),
        own_responses.shed(WaitTooLong(9.0, 3.0)),
        own_responses.too_many_connections(),
        own_responses.too_many_heads(),
        own_responses.timed_out(Reason.RESPONSE_LATE, "timeoutSeconds"),
        own_responses.upstream_failed("closed"),
        own_responses.no_upgrade("10.0.0.1:8080: the pod speaks only HTTP/2"),
        own_responses.draining("no pod was free in time"),
    ],
)
def test_an_error_response_has_the_status_of_its_reason(reply: OwnResponse) -> None:
    assert reply.reason is not None
    assert reply.status == ROWS[reply.reason].status


def test_each_reason_has_a_page_and_each_page_a_reason() -> None:
    pages = {page.stem for page in PAGES.glob("*.md")} - {"README"}
    assert pages == {reason.value for reason in Reason}


@in_one_test("word", [*Reason, *ProblemReason, *ScaleReason, INVALID])
def test_each_word_that_a_user_can_meet_has_a_page(word: Any) -> None:
    word = getattr(word, "value", word)
    page = pages()[word]
    assert page.startswith(f"# {word}\n")
    assert "\n## What to do" in page


@in_one_test("row", TABLE)
def test_the_page_of_a_reason_shows_a_response_with_its_status_and_reason(row: ReasonRow) -> None:
    reason = row.reason
    text = (PAGES / f"{reason.value}.md").read_text()
    assert text.startswith(f"# {reason.value}\n")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == [
        *("What it means", "How to see it", "What to do")
    ]
    shown = re.search(r"```console\n(.*?)\n```", text, re.DOTALL)
    assert shown is not None
    _, status, *head = shown[1].partition("\n\n")[0].splitlines()
    assert re.match(rf"HTTP/1\.1 {row.status or '[45][0-9][0-9]'} ", status)
    fields = dict(line.split(": ", 1) for line in head if line != ANY)
    assert fields["Activator-Reason"].split("; ")[0] == reason.value
    assert ("Retry-After" in fields) == (row.status in (503, 504))
    length = len(shown[1].partition("\n\n")[2])
    assert int(fields["Content-Length"]) in (length, length + 1)  # most bodies end a line


if __name__ == "__main__":
    for page, table in GENERATED.items():
        page.write_text(_TABLE.sub(lambda _, table=table: table(), page.read_text()))
