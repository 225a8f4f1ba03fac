"""The listener of a folder reports that something changed, and no more."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from activator.discovery.manifests import FolderListener
from tests.conftest import on_uvloop
from tests.process import PATIENCE

pytestmark = [
    on_uvloop,
    pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's"),
]


class Told:
    """Count calls, and let a test wait for the next one."""

    def __init__(self) -> None:
        self.event = asyncio.Event()

    def __call__(self) -> None:
        self.event.set()

    async def wait(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self.event.wait()
        self.event.clear()


@pytest.fixture
async def told():
    return Told()


@pytest.fixture
async def listening(tmp_path, told):
    folder = tmp_path / "manifests"
    folder.mkdir()
    listener = FolderListener(folder, 0.01, told)
    task = asyncio.ensure_future(listener.run())
    await told.wait()
    yield folder, listener
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_writing_renaming_and_removing_a_file_are_reported(listening, told):
    folder, _ = listening
    (folder / "a.tmp").write_text("x")
    await told.wait()
    (folder / "a.tmp").rename(folder / "a.yaml")
    await told.wait()
    (folder / "a.yaml").unlink()
    await told.wait()


async def test_a_folder_that_takes_the_name_of_another_is_watched(listening, told):
    folder, listener = listening
    folder.rename(folder.with_name("old"))
    folder.mkdir()
    listener.renew_if_replaced()
    await told.wait()
    told.event.clear()
    (folder / "b.yaml").write_text("x")
    await told.wait()


async def test_a_folder_that_is_missing_is_tried_again_until_it_is_there(tmp_path: Path, told):
    folder = tmp_path / "later"
    task = asyncio.ensure_future(FolderListener(folder, 0.001, told).run())
    for _ in range(20):
        await asyncio.sleep(0)
    assert not told.event.is_set()
    folder.mkdir()
    await told.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
