"""Has the pages about reasons and alerts, for terminals and admin ports without the repository.

The folders beside this file are those of docs/, by symbolic links; a wheel has copies.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Final

#: The page that lists all reasons of the activator, and the one that lists those of the scaler.
LIST: Final = "README"
SCALER: Final = "why-is-my-service-not-scaled"
#: A row of a table of reasons: the reason, its meaning, and what to do, or when it ends.
_ROW: Final = re.compile(r"^\| `([a-z-]+)` \| (.+) \| (.+) \|$", re.MULTILINE)


@cache
def pages() -> dict[str, str]:
    """Return the pages in Markdown, by the word of a reason or the name of an alert."""
    folders = (files(__name__) / name for name in ("runbooks", "scaler", "reasons"))
    found = [page for folder in folders for page in folder.iterdir()]
    named = {page.name.removesuffix(".md"): page.read_text("utf-8") for page in found}
    tables = {"an object that has a problem": LIST, "the scaler": SCALER}
    rows = [(*row, of) for of, page in tables.items() for row in _ROW.findall(named[page])]
    return dict(map(_page, rows)) | named


def _page(row: tuple[str, str, str, str]) -> tuple[str, str]:
    """Return a reason without a file, and its page."""
    word, meaning, do, of = row
    about = f"A reason of {of}: {meaning}."
    return (
        word,
        f"# {word}\n\n{about}\n\n## What to do, or when it ends\n\n{do[0].upper()}{do[1:]}.\n",
    )
