"""Serve the dashboard's files from memory.

The process reads the files once, at its start, from the package. It looks a path up among these
files, so no path leads out of the folder. No request waits for a disk. ``reasons.js`` is made
from the table of reasons, and a page from the frame of all pages.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from activator.admin import reason_script
from activator.admin.headers import DASHBOARD_HEADERS
from activator.admin.page_frame import compose

#: By suffix. Python's own table depends on the machine.
TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",  # RFC 9239; browsers run modules of no other type
    ".png": "image/png",
    ".svg": "image/svg+xml",
}
#: All other files: licences.
TEXT: Final = "text/plain; charset=utf-8"

#: Folder of the page of ``activator scale``; the activator does not serve it.
SCALER: Final = "scaler/"
#: The page.
INDEX: Final = "index.html"
#: The module that is made, not read.
REASONS: Final = "reasons.js"
#: The frame of all pages, which no browser gets alone.
FRAME: Final = "frame.html"

_REFUSED: Final = re.compile(r"\s*q\s*=\s*0(\.0*)?\s*")


class Asset(NamedTuple):
    """One file.

    Attributes:
        media_type: value of Content-Type.
        tag: value of ETag; weak, since both forms share it (RFC 9110 section 8.8.3.3).
        plain, zipped: the bytes, without and with gzip.
    """

    media_type: str
    tag: str
    plain: bytes
    zipped: bytes


@cache
def dashboard() -> dict[str, Asset]:
    """Return the dashboard's files by path; takes some milliseconds."""
    made = {REASONS: reason_script.script()}
    return chosen(INDEX, lambda path: not path.startswith(SCALER), made)


def chosen(
    page: str, is_wanted: Callable[[str], bool], made: Mapping[str, str]
) -> dict[str, Asset]:
    """Return files of the folder by path, scripts that have no file, and their page.

    Arguments:
        page: the path of the page.
        is_wanted: returns whether a page needs the file of a path.
        made: the scripts, by path.
    """
    every = dict(_walk(files("activator.admin") / "dashboard"))
    frame = every.pop(FRAME).decode()
    found = {path: text.encode() for path, text in made.items()}
    found |= {path: content for path, content in every.items() if is_wanted(path)}
    found[page] = compose(frame, found[page].decode(), page, found).encode()
    return {path: _asset(path, content) for path, content in found.items()}


def _walk(folder: Traversable, above: str = "") -> Iterator[tuple[str, bytes]]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _walk(each, f"{above}{each.name}/")
        else:
            yield above + each.name, each.read_bytes()


def _asset(path: str, content: bytes) -> Asset:
    media_type = TYPES.get(PurePosixPath(path).suffix, TEXT)
    tag = f'W/"{sha256(content).hexdigest()[:20]}"'
    return Asset(media_type, tag, content, gzip.compress(content, mtime=0))


def answer(request: Request, asset: Asset) -> Response:
    """Return a file, or 304 if the client already has it.

    A browser requests each file again when it loads the page. So it never combines files of two
    versions, and an unchanged file costs only a response head.
    """
    headers = {
        **DASHBOARD_HEADERS,
        "Cache-Control": "no-cache",
        "ETag": asset.tag,
        "Vary": "Accept, Accept-Encoding",  # clients that accept no HTML get `/` as text
    }
    if _has(request.headers.get("if-none-match", ""), asset.tag):
        return Response(status_code=304, headers=headers)
    content = asset.plain
    if _takes_gzip(request.headers.get("accept-encoding", "")):
        content = asset.zipped
        headers["Content-Encoding"] = "gzip"
    return Response(content, headers=headers, media_type=asset.media_type)


def _has(known: str, tag: str) -> bool:
    """Return whether ``If-None-Match`` names a tag, weak or strong (RFC 9110 section 13.1.2)."""
    tags = [each.strip().removeprefix("W/") for each in known.split(",")]
    return tag.removeprefix("W/") in tags or "*" in tags


def _takes_gzip(accepted: str) -> bool:
    for each in accepted.split(","):
        coding, _, weight = each.partition(";")
        if coding.strip().lower() == "gzip":
            return _REFUSED.fullmatch(weight) is None
    return False
