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


class Contexts:
    """The contexts of the browser by their options. A test shares them with the tests before.

    A page in a new context takes twice the CPU time: a new process reads all files again.
    """

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: dict[str, BrowserContext] = {}
        self._old: dict[BrowserContext, list[Page]] = {}

    async def find(self, options: dict[str, Any]) -> BrowserContext:
        """Return the context with these options."""
        key = repr(sorted(options.items()))
        if key not in self._contexts:
            self._contexts[key] = await self._browser.new_context(**options)
        return self._contexts[key]

    async def new_page(self, context: BrowserContext) -> Page:
        """Open a page; only then close the pages of earlier tests, so that their process stays."""
        page = await context.new_page()
        for old in self._old.pop(context, ()):
            await old.close()
        return page

    async def leave(self, page: Page) -> None:
        """Remove all that a test has left in the context; the page shows nothing from then on."""
        await page.unroute_all(behavior="ignoreErrors")  # a forged response may be in progress
        if page.url != BLANK:
            await page.evaluate("localStorage.clear()")
            await page.goto(BLANK)
        await page.context.clear_cookies()
        self._old.setdefault(page.context, []).append(page)


@pytest.fixture(scope="package")
def contexts(browser: Browser) -> Contexts:
    """Provide the contexts that tests share; they end with the browser."""
    return Contexts(browser)


@pytest.fixture
async def open_page(contexts: Contexts, browser: Browser, faults: Faults) -> AsyncIterator[Open]:
    """Provide a function that opens a page.

    `before` is called with the empty page. With `own`, the page has a new context, without cached
    files. For other options see `Browser.new_context`. The test fails if a page had an unexpected
    fault.
    """
    watched = set[BrowserContext]()
    async with AsyncExitStack() as stack:

        async def opened(
            url: str,
            before: Callable[[Page], Awaitable[None]] | None = None,
            own: bool = False,
            **options: Any,
        ) -> Page:
            if own:
                context = await browser.new_context(**options)
                stack.push_async_callback(context.close)
            else:
                context = await contexts.find(options)
            context.set_default_timeout(PATIENCE * 1000)
            page = await contexts.new_page(context)
            if context not in watched:
                watched.add(context)
                stack.callback(faults.watch(context, url))
            if own:
                stack.push_async_callback(page.unroute_all, behavior="ignoreErrors")
            else:
                stack.push_async_callback(contexts.leave, page)
            if before is not None:
                await before(page)
            await page.goto(url)
            return page

        yield opened
        assert faults.unexpected() == []
