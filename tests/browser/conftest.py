"""Fixtures: one browser and one activator for all tests, and pages that record their faults."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import uvloop
from playwright.async_api import Browser, BrowserContext, Page, expect

from tests.browser.chromium import chromium
from tests.browser.faults import Faults
from tests.browser.site import App, Site
from tests.process import PATIENCE
from tests.programs import need

Open = Callable[..., Awaitable[Page]]

#: The page that a new tab shows.
BLANK = "about:blank"

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


class Shared:
    """The context of all pages without options. A test shares it with the tests before.

    A page in a new context takes twice the CPU time: a new process reads all files again.
    """

    def __init__(self, context: BrowserContext) -> None:
        self.context = context
        self._old: list[Page] = []

    async def new_page(self) -> Page:
        """Open a page; only then close the pages of earlier tests, so that their process stays."""
        page = await self.context.new_page()
        while self._old:
            await self._old.pop().close()
        return page

    async def leave(self, page: Page) -> None:
        """Remove all that a test has left in the context; the page shows nothing from then on."""
        await page.unroute_all(behavior="ignoreErrors")  # a forged response may be in progress
        if page.url != BLANK:
            await page.evaluate("localStorage.clear()")
            await page.goto(BLANK)
        await self.context.clear_cookies()
        self._old.append(page)


@pytest.fixture(scope="package")
async def shared(browser: Browser) -> Shared:
    """Provide the context that tests share; it ends with the browser."""
    return Shared(await browser.new_context())


@pytest.fixture
async def servers() -> AsyncIterator[AsyncExitStack]:
    """Provide a stack for the servers of one test. They end after its pages, which ask them."""
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture
async def open_page(
    servers: AsyncExitStack, shared: Shared, browser: Browser, faults: Faults
) -> AsyncIterator[Open]:
    """Provide a function that opens a page.

    `before` is called with the empty page. With `own` or other options, see `Browser.new_context`,
    the page has a new context, without cached files. The test fails if a page had an unexpected
    fault.
    """
    is_watched = False
    async with AsyncExitStack() as stack:

        async def opened(
            url: str,
            before: Callable[[Page], Awaitable[None]] | None = None,
            own: bool = False,
            **options: Any,
        ) -> Page:
            nonlocal is_watched
            if own or options:
                context = await browser.new_context(**options)
                stack.push_async_callback(context.close)
                faults.watch(context, url)
                page = await context.new_page()
                stack.push_async_callback(page.unroute_all, behavior="ignoreErrors")
            else:
                context = shared.context
                page = await shared.new_page()
                if not is_watched:
                    is_watched = True
                    stack.callback(faults.watch(context, url))
                stack.push_async_callback(shared.leave, page)
            context.set_default_timeout(PATIENCE * 1000)
            if before is not None:
                await before(page)
            await page.goto(url)
            return page

        yield opened
        assert faults.unexpected() == []
