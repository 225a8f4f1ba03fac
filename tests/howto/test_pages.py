"""Each page works as it is written: its commands succeed, and print what it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.howto import pages
from tests.howto.reader import Reader, worlds
from tests.howto.table import TABLE, World
from tests.howto.worlds import WORLDS

#: Pages of one world one after the other: the cluster changes less often.
RUNS = [
    pytest.param(page, world, id=f"{pages.name(page)}-{world.value}")
    for world in World
    for page in pages.PAGES
    if pages.name(page) in TABLE  # tests/test_howto_table.py asserts that each one is
    if world in worlds(page)
]


@pytest.mark.parametrize(("page", "world"), RUNS)
def test_page(page: Path, world: World, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if world in WORLDS:
        made = WORLDS[world](tmp_path)
    else:
        made = request.getfixturevalue("cluster").place(world, tmp_path)
    with made as place:
        Reader(page, world, place, tmp_path).follow()
