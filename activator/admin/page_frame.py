"""Makes a page of the frame that all pages share, and of the parts of one page.

``frame.html`` names the parts as ``{{name}}``; the file of a page has each in an element
``template``. The page loads all its modules at once: a browser finds further ones only in a loaded
module, a round trip later.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Final

_PART: Final = re.compile(r'<template data-part="(\w+)">(.*?)</template>\n', re.DOTALL)
_NAME: Final = re.compile(r"\{\{(\w+)\}\}")
#: The module that a page starts with, beside its own file.
_MAIN: Final = "main.js"
#: A script that is no module: it runs before the first paint. The frame loads it.
_FIRST: Final = "theme.js"
#: Files of other authors, which a module loads when it needs them.
_LATER: Final = "vendor"


def compose(frame: str, page: str, path: str, files: Iterable[str]) -> str:
    """Return a page.

    Arguments:
        frame: the text of the frame.
        page: the text of the file with the parts.
        path: the path of that file.
        files: the paths of all files that the page may load.

    Raises:
        KeyError: the frame names a part that the page has not.
    """
    found = {name: text.strip("\n") for name, text in _PART.findall(page)}
    parts: Mapping[str, str] = found | {
        "styles": "\n".join(_styles(files)),
        "scripts": "\n".join(_scripts(str(PurePosixPath(path).with_name(_MAIN)), files)),
    }
    return _NAME.sub(lambda name: parts[name[1]], frame)


def _styles(files: Iterable[str]) -> Iterator[str]:
    for path in _sorted(files, ".css"):
        yield f'<link rel="stylesheet" href="dashboard/{path}">'


def _scripts(main: str, files: Iterable[str]) -> Iterator[str]:
    yield f'<script type="module" src="dashboard/{main}"></script>'
    for path in _sorted(files, ".js"):
        if path not in (main, _FIRST):
            yield f'<link rel="modulepreload" href="dashboard/{path}">'


def _sorted(files: Iterable[str], suffix: str) -> list[str]:
    """Return the files of a page, its shared ones first: later styles win."""
    paths = [PurePosixPath(path) for path in files if path.endswith(suffix)]
    wanted = [path for path in paths if _LATER not in path.parts]
    return [str(path) for path in sorted(wanted, key=lambda path: (len(path.parts), path))]
