"""One browser and one activator for all tests of this folder, and a page that notes its faults."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import uvloop
from playwright.async_api import Browser, Page, expect

from tests.browser.chromium import Missing, chromium
from tests.browser.faults import Faults
from tests.browser.site import App, Site
from tests.process import PATIENCE

Open = Callable[..., Awaitable[Page]]

expect.set_options(timeout=PATIENCE * 1000)


@pytest.fixture(scope="package")
def anyio_backend() -> Any:
    """Processes know nothing of a virtual clock; and what a package shares shares its loop."""
    return "asyncio", {"loop_factory": uvloop.new_event_loop}


@pytest.fixture(scope="package")
async def browser(anyio_backend: Any) -> AsyncIterator[Browser]:
    """A test has contexts of its own in it, which know nothing of each other."""
    try:
        async with chromium() as running:
            yield running
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="package")
async def site(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """An activator for all tests that leave it as it was, each with revisions of its own names."""
    async with Site(tmp_path_factory.mktemp("site")) as running:
        yield running


@pytest.fixture(scope="package")
async def lived(site: Site) -> AsyncIterator[App]:
    """A revision that has been woken, and so has a past, which takes the activator seconds.

    It has one pod, which takes one request at a time; who has some wait lets them go again.
    """
    async with site.app("lived", container_concurrency=1) as app:
        (first,) = app.ask()
        await app.start_pod()
        await first
        yield app


@pytest.fixture
async def own_site(browser: Browser, tmp_path: Path) -> AsyncIterator[Site]:
    """An activator for one test alone."""
    async with Site(tmp_path) as running:
        yield running


@pytest.fixture
def faults() -> Faults:
    """What pages have done that they must not; a test may say which of it it provokes."""
    return Faults()


@pytest.fixture
async def open_page(browser: Browser, faults: Faults) -> AsyncIterator[Open]:
    """Opens a page in a context of its own.

    `before` is called with the page while nothing is open in it; other options are those of
    `Browser.new_context`. At the end of the test no page may have done what it must not.
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
            # An answer that a test is forging at its end has nobody to go to.
            contexts.push_async_callback(page.unroute_all, behavior="ignoreErrors")
            if before is not None:
                await before(page)
            await page.goto(url)
            return page

        yield opened
        assert faults.unexpected() == []
