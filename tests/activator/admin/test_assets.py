"""The dashboard's files as a browser gets them: typed, compressed, revalidated and packaged."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from activator.admin import assets
from activator.admin.application import create_app
from activator.admin.headers import DASHBOARD_HEADERS, SECURITY_HEADERS
from activator.scale.admin import page
from tests.activator.telemetry.world import World

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
    one, other = (assets._asset("a.js", content) for content in (b"1", b"2"))
    assert one.tag != other.tag
    assert one == assets._asset("a.js", b"1")  # the same on every replica and after each start


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
    } == {*assets.dashboard(), *page.files(), assets.FRAME} - {assets.REASONS, page.REASONS}
