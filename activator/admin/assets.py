"""Serve the files of a page for browsers from memory: of the dashboard, and of the scaler's page.

The process reads the files once, at its start, from the package. It looks a path up among these
files, so no path leads out of the folder. No request waits for a disk. ``reasons.js`` is made
from the table of reasons, and a page from the frame of all pages.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath
from typing import Final, NamedTuple, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from activator.admin.http_application import DASHBOARD_HEADERS
from activator.pages import pages
from throttler import reason
from throttler.reason import TABLE, ReasonRow

T = TypeVar("T")

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
    made = {REASONS: reason_script()}
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
    return {path: asset_of(path, content) for path, content in found.items()}


def _walk(folder: Traversable, above: str = "") -> Iterator[tuple[str, bytes]]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _walk(each, f"{above}{each.name}/")
        else:
            yield above + each.name, each.read_bytes()


def asset_of(path: str, content: bytes) -> Asset:
    """Return a file; equal contents have equal tags, in all processes."""
    media_type = TYPES.get(PurePosixPath(path).suffix, TEXT)
    tag = f'W/"{sha256(content).hexdigest()[:20]}"'
    return Asset(media_type, tag, content, gzip.compress(content, mtime=0))


# -- responses


def page_routes(files: Mapping[str, Asset], page: str, text: Callable[[], str]) -> list[Route]:
    """Return the routes of a page for browsers: ``/``, and its files below ``/dashboard/``.

    The pages about reasons and alerts are plain text, for browsers and other clients.

    Arguments:
        files: the files by path.
        page: path of the page itself.
        text: returns the response of ``/`` to other clients.
    """

    async def index(request: Request) -> Response:
        if "text/html" in request.headers.get("accept", ""):  # a browser
            return answer(request, files[page])
        return PlainTextResponse(text(), headers={"Vary": "Accept"})

    async def file(request: Request) -> Response:
        asset = files.get(request.path_params["path"])
        if asset is None:
            raise HTTPException(404)
        return answer(request, asset)

    async def text_page(request: Request) -> Response:
        found = pages().get(request.path_params["name"].removesuffix(".md"))
        if found is None:
            raise HTTPException(404)
        return PlainTextResponse(found)

    page_files = Route("/dashboard/{path:path}", file)
    return [Route("/", index), page_files, Route("/reasons/{name}", text_page)]


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


# -- the page
#
# ``frame.html`` names the parts as ``{{name}}``; the file of a page has each in an element
# ``template``. The page loads all its modules at once: a browser finds further ones only in a
# loaded module, a round trip later.

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
    main = str(PurePosixPath(path).with_name(_MAIN))
    styles = [f'<link rel="stylesheet" href="dashboard/{each}">' for each in _sorted(files, ".css")]
    scripts = [f'<script type="module" src="dashboard/{main}"></script>']
    scripts += [
        f'<link rel="modulepreload" href="dashboard/{each}">'
        for each in _sorted(files, ".js")
        if each not in (main, _FIRST)
    ]
    parts = found | {"styles": "\n".join(styles), "scripts": "\n".join(scripts)}
    return _NAME.sub(lambda name: parts[name[1]], frame)


def _sorted(files: Iterable[str], suffix: str) -> list[str]:
    """Return the files of a page, its shared ones first: later styles win."""
    paths = [PurePosixPath(path) for path in files if path.endswith(suffix)]
    wanted = [path for path in paths if _LATER not in path.parts]
    return [str(path) for path in sorted(wanted, key=lambda path: (len(path.parts), path))]


# -- the reasons: the browser gets the same texts as ``activator explain``


def reason_script() -> str:
    """Return the source of the module with the names that ``words.js`` imports."""
    rows = {
        row.reason.value: {
            "meaning": _of_both(row.title),
            **_of_both(partial(_steps, row)),
            **(
                {"route": _steps(row, is_service=True, is_route=True)} if row.route_commands else {}
            ),
            "inFolder": _of_both(row.folder_step),
        }
        for row in TABLE
    }
    values = {
        "REASONS": rows,
        "AT_ZERO": reason.AT_ZERO,
        "WITHOUT_PODS": reason.WITHOUT_PODS,
        "NO_SERVER": reason.NO_SERVER,
        "OF_STARTS": reason.OF_STARTS,
        "STARTING": reason.STARTING,
        "HARMLESS": reason.HARMLESS,
        "LISTS_PODS": reason.LISTS_PODS,
        "DELETED": {
            "revision": reason.DELETED,
            "service": reason.DELETED_SERVICE,
            "route": reason.DELETED_ROUTE,
        },
    }
    return "".join(
        f"export const {name} = {json.dumps(value)};\n" for name, value in values.items()
    )


def _of_both(text: Callable[..., T]) -> dict[str, T]:
    return {"revision": text(is_service=False), "service": text(is_service=True)}


def _steps(row: ReasonRow, *, is_service: bool, is_route: bool = False) -> dict[str, object]:
    advice, commands = row.steps(is_service=is_service, is_route=is_route)
    return {"advice": advice, "commands": commands}
