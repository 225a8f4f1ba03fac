"""How a page is made of its frame and its parts."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from activator.admin import assets
from activator.admin.page_frame import compose
from activator.scale.admin import page

FRAME = "<title>{{title}}</title>\n{{styles}}\n{{scripts}}\n<main>\n{{content}}\n</main>\n"
PARTS = (
    '<template data-part="title">a page</template>\n'
    '<template data-part="content">\n  <p>\n  </p>\n</template>\n'
)


def test_the_parts_take_the_places_of_their_names() -> None:
    files = (
        "z.js",
        "theme.js",
        "s/main.js",
        "s/b.js",
        "s/a.css",
        "z.css",
        "vendor/v.js",
        "s/i.html",
    )
    assert compose(FRAME, PARTS, "s/i.html", files).splitlines() == [
        "<title>a page</title>",
        '<link rel="stylesheet" href="dashboard/z.css">',
        '<link rel="stylesheet" href="dashboard/s/a.css">',
        '<script type="module" src="dashboard/s/main.js"></script>',
        '<link rel="modulepreload" href="dashboard/z.js">',
        '<link rel="modulepreload" href="dashboard/s/b.js">',
        *("<main>", "  <p>", "  </p>", "</main>"),
    ]


def test_a_missing_part_is_an_error() -> None:
    with pytest.raises(KeyError, match="content"):
        compose(FRAME, PARTS.replace('"content"', '"contents"'), "i.html", ())


class Tags(HTMLParser):
    """Collects the elements that are open, and the identifiers."""

    EMPTY = frozenset({"meta", "link", "img", "input"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.EMPTY:
            self.open.append(tag)
        self.ids += [str(value) for name, value in attrs if name == "id"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("made", [assets.dashboard()[assets.INDEX], page.files()[page.INDEX]])
def test_each_page_is_complete(made: assets.Asset) -> None:
    text = made.plain.decode()
    assert not re.search(r"\{\{|<template", text)
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    assert len(tags.ids) == len(set(tags.ids))
    assert {"content", "headline", "filter", "toolbar", "skip"} <= set(tags.ids)
