"""Each console block of the how-tos has a row that says where it runs, or why it does not."""

from __future__ import annotations

from tests.howto import pages
from tests.howto.reader import not_run, rows
from tests.howto.table import TABLE


def test_each_block_has_a_row_and_each_row_a_block() -> None:
    for page in pages.PAGES:
        rows(page)
    assert set(TABLE) <= {pages.name(page) for page in pages.PAGES}


def test_each_command_that_does_not_run_has_a_reason() -> None:
    lines = not_run()
    assert all(line.rpartition(": ")[2] for line in lines)
    print("\n".join(lines))


def test_a_difference_is_shown_with_the_line_of_the_page() -> None:
    shown = ("HTTP/1.1 200 OK", "…", "Date: Mon, 23 Nov 2026 08:35:17 GMT", "NAME   AGE")
    same = "HTTP/1.1 200 OK\nVary: Accept\nDate: Tue, 01 Dec 2026 00:00:00 GMT\nNAME     AGE\n"
    assert not pages.difference(shown, same, "page.md:7")
    other = pages.difference(shown, same.replace("200", "503"), "page.md:7")
    assert "--- page.md:7" in other
    assert {"-HTTP/1.1 200 OK", "+HTTP/1.1 503 OK"} <= set(other.splitlines())
