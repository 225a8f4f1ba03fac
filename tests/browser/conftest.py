"""Fixtures: one browser and one activator for all tests, and pages that record their faults."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import uvloop
from playwright.async_api import Browser, Page, expect

from tests.browser.chromium import chromium
from tests.browser.faults import Faults
from tests.browser.site import App, Site
from tests.process import PATIENCE
from tests.programs import need

Open = Callable[..., Awaitable[Page]]

expect.set_options(timeout=PATIENCE * 1000)


@pytest.fixture(scope="package")
def anyio_backend() -> Any:
    """Use the real loop: processes have no virtual clock, and shared fixtures need one loop."""
    return "asyncio", {"loop_factory": uvloop.new_event_loop}


@pytest.fixture(scope="package")
async def browser(anyio_backend: Any) -> AsyncIterator[Browser]:
    """Provide the browser; each test opens its own contexts in it."""
    need("chromium", "chromium")
    async with chromium() as running:
        yield running


@pytest.fixture(scope="package")
async def site(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """Provide an activator for all tests that restore its state; each uses its own revisions."""
    async with Site(tmp_path_factory.mktemp("site")) as running:
        yield running


@pytest.fixture(scope="package")
async def lived(site: Site) -> AsyncIterator[App]:
    """Provide a revision with a cold start in its history, which takes seconds to make.

    It has one pod with one request at a time. A test that queues requests must finish them.
    """
    async with site.app("lived", container_concurrency=1) as app:
        (first,) = app.ask()
        await app.start_pod()
        await first
        yield app


@pytest.fixture
async def own_site(browser: Browser, tmp_path: Path) -> AsyncIterator[Site]:
    """Provide an activator for one test."""
    async with Site(tmp_path) as running:
        yield running


@pytest.fixture
def faults() -> Faults:
    """Provide the record of faults; a test declares the faults that it causes."""
    return Faults()


@pytest.fixture
async def open_page(browser: Browser, faults: Faults) -> AsyncIterator[Open]:
    """Provide a function that opens a page in its own context.

    `before` is called with the empty page; for other options see `Browser.new_context`. The
    test fails if a page had an unexpected fault.
    """
    async with AsyncExitStack() as contexts:

        async def opened(
            url: str, before: Callable[[Page], Awaitable[None]] | None = None, **options: Any
        ) -> Page:
            context = await browser.new_context(**options)
            contexts.push_async_callback(context.close)
            context.set_default_timeout(PATIENCE * 1000)
            faults.watch(context, url)
            page = await context.new_page()
            # A forged response may be in progress when the page closes.
            contexts.push_async_callback(page.unroute_all, behavior="ignoreErrors")
            if before is not None:
                await before(page)
            await page.goto(url)
            return page

        yield opened
        assert faults.unexpected() == []
