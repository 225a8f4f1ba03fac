"""What the pages name exists: other pages and their sections, settings, metrics, make's targets."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from activator.config import SETTINGS
from activator.proxy.problem import negotiated
from activator.proxy.replies import PLAIN, Reply
from activator.telemetry.families import FAMILIES
from throttler.reason import MEANINGS, Reason

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
#: Names of the same form that are no metrics.
SPANS = {"activator_proxy"}
CODE = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """The sections of a page, as GitHub makes links of headings."""
    headings = re.findall(r"^#+ (.+)$", CODE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", CODE.sub("", page.read_text())):
        if "://" in link:
            continue
        path, _, section = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{link}: no such file"
        assert not section or section in anchors(target), f"{link}: no such section"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_settings_exist(page: Path) -> None:
    known = {row.variable for row in SETTINGS}
    said = set(re.findall(r"\bACTIVATOR_[A-Z0-9_]*[A-Z0-9]\b(?!_)", page.read_text()))
    assert {
        variable for variable in said if not any(k.startswith(variable) for k in known)
    } == set()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_metrics_exist(page: Path) -> None:
    known = {family.name for family in FAMILIES}
    said = re.findall(r"\b(?:activator|kn_activator)_[a-z_]+[a-z]\b", page.read_text())
    assert {re.sub(r"_(bucket|sum|count)$", "", metric) for metric in said} <= known | SPANS


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_makes_targets_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`(?:sudo )?make ([a-z-]+)", page.read_text())) <= targets


# Pages of reasons.

REASONS = ROOT / "docs" / "reasons"


def test_each_reason_has_a_page_and_each_page_a_reason() -> None:
    pages = {page.stem for page in REASONS.glob("*.md")} - {"README"}
    assert pages == {reason.value for reason in Reason}


def test_the_index_has_each_reason_with_its_sentence() -> None:
    rows = re.findall(
        r"^\| \[`(.+?)`\]\((.+?)\) \| .+? \| (.+) \|$",
        (REASONS / "README.md").read_text(),
        re.MULTILINE,
    )
    assert rows == [(r.value, f"{r.value}.md", MEANINGS[r]) for r in Reason]


@pytest.mark.parametrize("reason", Reason, ids=lambda reason: reason.value)
def test_the_page_of_a_reason_shows_an_answer_that_the_activator_gives(reason: Reason) -> None:
    text = (REASONS / f"{reason.value}.md").read_text()
    assert text.startswith(f"# {reason.value}\n")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == [
        *("What it means", "How to see it", "What to do")
    ]
    shown = re.search(r"```console\n(.*?)\n```", text, re.DOTALL)
    assert shown is not None
    plain, _, problem = shown[1].partition("| jq\n")
    said = json.loads(problem)
    known = Reply(said["status"], PLAIN, b"", reason, said["detail"])
    again = json.loads(negotiated(known, b"\r\nAccept: application/json").body)
    assert said.items() >= again.items()
    fields = dict(re.findall(r"^([\w-]+): (.*)$", plain, re.MULTILINE))
    assert plain.splitlines()[1].startswith(f"HTTP/1.1 {said['status']} ")
    assert fields["Activator-Reason"].split("; ")[0] == reason.value
    assert ("Retry-After" in fields) == (said["status"] in (503, 504))
    assert said.get("retryAfterSeconds") == (
        int(fields["Retry-After"]) if "Retry-After" in fields else None
    )
