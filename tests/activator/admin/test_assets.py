"""The files of the dashboard: how they are served, the frame of pages, and the reasons."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest

from activator.admin import assets
from activator.admin.application import create_app
from activator.admin.assets import compose
from activator.admin.http_application import DASHBOARD_HEADERS, SECURITY_HEADERS
from activator.scale.admin import application
from tests.activator.telemetry.world import World
from throttler.reason import AT_ZERO, DELETED, DELETED_ROUTE, DELETED_SERVICE, TABLE, Reason

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "activator" / "admin" / "dashboard"
PAGE = "/dashboard/index.html"


async def get(path=PAGE, **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    transport = httpx.ASGITransport(create_app(World()))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as session:
        return await session.get(path, headers=named)


def test_every_file_of_the_folder_is_served_with_a_type_that_fits():
    there = {path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*") if path.is_file()}
    served = assets.dashboard()
    of_scaler = {path for path in there if path.startswith(assets.SCALER)}
    assert set(served) == there - of_scaler - {assets.FRAME} | {assets.REASONS}
    for path, asset in served.items():
        text = asset.media_type == assets.TEXT
        assert not text or Path(path).suffix in ("", ".txt", ".md"), f"{path} needs a row in TYPES"


@pytest.mark.parametrize(
    ("suffix", "media_type"),
    [
        (".js", "text/javascript"),
        (".css", "text/css"),
        (".svg", "image/svg+xml"),
        (".html", "text/html"),
    ],
)
def test_types_are_those_that_browsers_insist_on(suffix, media_type):
    assert assets.TYPES[suffix].partition(";")[0] == media_type


async def test_the_whole_response():
    answer = await get()
    assert answer.content == assets.dashboard()[assets.INDEX].plain
    assert answer.headers["cache-control"] == "no-cache"
    for name, value in DASHBOARD_HEADERS.items():
        assert answer.headers.get_list(name) == [value]
    for name in ("X-Content-Type-Options", "Referrer-Policy", "Cross-Origin-Opener-Policy"):
        assert answer.headers.get_list(name) == [SECURITY_HEADERS[name]]


@pytest.mark.parametrize(
    ("accepted", "zipped"),
    [
        ("gzip, deflate, br, zstd", True),
        ("br;q=1.0, GZIP;q=0.5", True),
        ("gzip;q=0", False),
        ("gzip; q=0.000, br", False),
        ("identity", False),
        ("", False),
    ],
)
async def test_it_is_zipped_for_those_who_take_that(accepted, zipped):
    answer = await get(accept_encoding=accepted)
    assert answer.headers.get("content-encoding") == ("gzip" if zipped else None)
    assert answer.content == assets.dashboard()[assets.INDEX].plain
    assert "Accept-Encoding" in answer.headers["vary"]
    sent = assets.dashboard()["index.html"].zipped
    assert gzip.decompress(sent) == answer.content
    if zipped:
        assert answer.headers["content-length"] == str(len(sent))


@pytest.mark.parametrize("known", ["{}", '"other", {}', "*"])
async def test_who_has_it_gets_no_body(known):
    first = await get()
    again = await get(if_none_match=known.format(first.headers["etag"]))
    assert (again.status_code, again.content) == (304, b"")
    for name in ("etag", "cache-control", "vary", "content-security-policy"):
        assert again.headers[name] == first.headers[name]


@pytest.mark.parametrize("known", ['W/"other"', "", "nonsense, ,"])
async def test_who_has_another_gets_it(known):
    assert (await get(if_none_match=known)).status_code == 200


async def test_the_page_at_the_root_is_known_again_too():
    first = await get("/", accept="text/html")
    again = await get("/", accept="text/html", if_none_match=first.headers["etag"])
    assert (first.status_code, again.status_code) == (200, 304)


def test_the_tag_follows_the_content():
    one, other = (assets.asset_of("a.js", content) for content in (b"1", b"2"))
    assert one.tag != other.tag
    assert one == assets.asset_of("a.js", b"1")  # the same on every replica and after each start


def test_an_installed_activator_has_the_same_files(tmp_path):
    """Build the files of a wheel by setuptools' own step, which needs no network."""
    (tmp_path / "activator").symlink_to(ROOT / "activator")
    (tmp_path / "throttler").symlink_to(ROOT / "throttler")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        (tmp_path / name).symlink_to(ROOT / name)
    built = tmp_path / "built"
    code = f"import setuptools; setuptools.setup(script_args=['-q', 'build', '-b', {str(built)!r}])"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, timeout=60)
    packed = built / "lib" / "activator" / "admin" / "dashboard"
    assert {
        path.relative_to(packed).as_posix() for path in packed.rglob("*") if path.is_file()
    } == {*assets.dashboard(), *application.files(), assets.FRAME} - {
        assets.REASONS,
        application.REASONS,
    }


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


@pytest.mark.parametrize(
    "made", [assets.dashboard()[assets.INDEX], application.files()[application.INDEX]]
)
def test_each_page_is_complete(made: assets.Asset) -> None:
    text = made.plain.decode()
    assert not re.search(r"\{\{|<template", text)
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    assert len(tags.ids) == len(set(tags.ids))
    assert {"content", "headline", "filter", "toolbar", "skip"} <= set(tags.ids)


def test_the_script_has_each_row_and_the_special_advice():
    texts = dict(
        re.findall(
            r"^export const (\w+) = (.*?);$", assets.reason_script(), re.MULTILINE | re.DOTALL
        )
    )
    assert json.loads(texts["AT_ZERO"]) == AT_ZERO
    assert json.loads(texts["DELETED"]) == {
        "revision": DELETED,
        "service": DELETED_SERVICE,
        "route": DELETED_ROUTE,
    }
    rows = json.loads(texts["REASONS"])
    assert {word: (row["meaning"], row["inFolder"]) for word, row in rows.items()} == {
        row.reason.value: (
            {"revision": row.meaning, "service": row.service_meaning or row.meaning},
            {"revision": row.in_folder, "service": row.service_in_folder or row.in_folder},
        )
        for row in TABLE
    }
    for row in TABLE:
        steps = {"advice": row.advice, "commands": list(row.commands)}
        assert ("route" in rows[row.reason.value]) == bool(row.route_commands)
        assert rows[row.reason.value]["revision"] == steps


def test_the_steps_for_a_service_have_no_word_of_knative():
    rows = json.loads(
        re.findall(r"REASONS = (.*?);$", assets.reason_script(), re.MULTILINE | re.DOTALL)[0]
    )
    assert "knative" in json.dumps([row["revision"] for row in rows.values()])
    rows.pop(Reason.AUTOSCALER_UNREACHABLE.value)  # of a Revision alone
    text = json.dumps([(row["service"], row.get("route")) for row in rows.values()])
    assert not re.search("knative|queue-proxy|podautoscaler|user-container", text)
    waits = rows[Reason.DRAINING.value]
    assert waits["service"] == waits["revision"]  # fits both
