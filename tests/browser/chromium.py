"""Debian's Chromium, as Playwright starts it: not the browsers that Playwright would download."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Browser, async_playwright


class Missing(Exception):
    """It is not installed; says how it would be."""


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """One browser, without a window, while it is entered.

    Raises:
        Missing: there is none here.
    """
    program = shutil.which("chromium")
    if program is None:
        raise Missing("chromium is missing; on Debian: apt-get install chromium")
    # Its sandbox does not work for root, which CI machines are.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=arguments)
        try:
            yield browser
        finally:
            await browser.close()
