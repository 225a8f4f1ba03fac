"""Start Debian's Chromium with Playwright, instead of a browser that Playwright downloads."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Browser, async_playwright

from tests.programs import find


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """Provide one browser without a window.

    Raises:
        tests.programs.Missing: Chromium is not installed.
    """
    program = find("chromium", "chromium")
    # Its sandbox does not work for root, and CI machines run as root.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=arguments)
        try:
            yield browser
        finally:
            await browser.close()
