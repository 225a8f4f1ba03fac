"""Start Debian's Chromium with Playwright, instead of a browser that Playwright downloads."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Browser, async_playwright


class Missing(Exception):
    """Chromium is not installed; the text says how to install it."""


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """Provide one browser without a window.

    Raises:
        Missing: Chromium is not installed.
    """
    program = shutil.which("chromium")
    if program is None:
        raise Missing("chromium is missing; on Debian: apt-get install chromium")
    # Its sandbox does not work for root, and CI machines run as root.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=arguments)
        try:
            yield browser
        finally:
            await browser.close()
