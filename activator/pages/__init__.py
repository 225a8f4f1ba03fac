"""Has the pages about reasons and alerts, for terminals and admin ports without the repository.

The folders beside this file are those of docs/, by symbolic links; a wheel has copies.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final

#: The page that lists all reasons.
LIST: Final = "README"


@cache
def pages() -> dict[str, str]:
    """Return the pages in Markdown, by the word of a reason or the name of an alert."""
    folders = (files(__name__) / name for name in ("runbooks", "reasons"))
    found = [page for folder in folders for page in folder.iterdir()]
    return {page.name.removesuffix(".md"): page.read_text("utf-8") for page in found}
