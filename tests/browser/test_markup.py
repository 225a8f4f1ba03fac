"""Markup in what the activator tells is text on the page: nothing of it is run or drawn."""

from __future__ import annotations

import json
import re
from collections.abc import Set
from functools import partial
from typing import Any
from urllib.parse import quote

from playwright.async_api import Page, Route, expect

from tests.browser.conftest import Open
from tests.browser.faults import Faults
from tests.browser.site import App, Site

MARKUP = "<img src=x onerror=alert(1)><script>alert(2)</script>\"'><b>&amp;"
#: Fields that are no text.
TIMES = {"began", "time"}
#: What would be there if markup were markup.
DRAWN = "img[src=x], main b, main script"


def hostile(value: Any, real: Set[str], name: str = "") -> Any:
    """The same with markup in each text but times and what is to stay real."""
    if isinstance(value, dict):
        return {key: hostile(each, real, key) for key, each in value.items()}
    if isinstance(value, list):
        return [hostile(each, real, name) for each in value]
    return value + MARKUP if isinstance(value, str) and name not in TIMES | real else value


async def forge(page: Page, *, names: bool) -> None:
    """Have every answer of the API but the stream hold markup in each text.

    Arguments:
        names: whether revisions' names hold it, too; a page of one is asked for by its real one.
    """

    async def answer(route: Route) -> None:
        real = await route.fetch()
        told = hostile(await real.json(), frozenset() if names else {"namespace", "name"})
        if "activator" in told and "manifestErrors" in told["activator"]:
            told["activator"]["manifestErrors"] = {MARKUP: MARKUP}
        await route.fulfill(response=real, body=json.dumps(told))

    await page.route(re.compile(r"/api/v1/(revisions|history)"), answer)


async def test_every_text_of_the_overview(site: Site, open_page: Open, faults: Faults) -> None:
    # Where it is slow, the page asks for a revision by the name that was forged, with its slashes.
    faults.expect(r"^400: .*[?]revision=.*onerror|status of 400 \(Bad Request\)")
    async with site.app("marked", pods=1) as app:
        app.gate.clear()
        app.ask()
        page = await open_page(site.url, partial(forge, names=True))
        await expect(page.locator("tbody a").get_by_text(MARKUP).first).to_be_visible()
        await expect(page.locator(".bar-top")).to_contain_text(MARKUP)
        await expect(page.get_by_role("list", name="Problems")).to_contain_text(MARKUP)
        await expect(page.locator(DRAWN)).to_have_count(0)


async def test_every_text_of_a_revisions_page(site: Site, lived: App, open_page: Open) -> None:
    async with lived.full(2):
        page = await open_page(site.page_of(lived), partial(forge, names=False))
        for heading in ("Why requests wait", "Limits and use", "Pods", "Cold starts"):
            await expect(page.get_by_role("region", name=heading)).to_contain_text(MARKUP)
        await expect(page.locator(DRAWN)).to_have_count(0)


async def test_every_text_of_an_event(site: Site, lived: App, open_page: Open) -> None:
    told = {"time": "2026-03-01T12:00:00Z", "revision": lived.key, "address": MARKUP}
    told |= {"why": MARKUP, "was": MARKUP, "state": MARKUP}
    hello = json.dumps({"podName": MARKUP, "version": MARKUP})
    lines = (
        f"retry: 60000\nid: a-1\nevent: hello\ndata: {hello}\n\n"
        f"id: a-2\nevent: pod-changed\ndata: {json.dumps(told)}\n\n"
    )

    async def stream(route: Route) -> None:
        await route.fulfill(body=lines, content_type="text/event-stream")

    page = await open_page(site.page_of(lived), lambda page: page.route("**/api/v1/events", stream))
    await expect(page.get_by_role("region", name="Events")).to_contain_text(MARKUP)
    await expect(page.locator(DRAWN)).to_have_count(0)


async def test_the_address_of_a_page(site: Site, open_page: Open, faults: Faults) -> None:
    faults.expect("404")  # there is no such revision
    page = await open_page(f"{site.url}#/revisions/default/{quote(MARKUP, safe='')}")
    await expect(page.get_by_role("heading", level=1)).to_have_text(f"default/{MARKUP}")
    await expect(page.get_by_text("This activator has no such revision")).to_be_visible()
    async with site.app("named-otherwise"):
        await page.goto(f"{site.url}#/?filter={quote(MARKUP)}")
        await page.reload()
        await expect(page.locator("#empty")).to_contain_text(MARKUP)
    await expect(page.locator(DRAWN)).to_have_count(0)
