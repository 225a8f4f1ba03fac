"""Markup in data of the activator is text on the page: the browser does not interpret it."""

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
#: Fields without text.
TIMES = {"began", "time"}
#: Elements that would exist if the browser interpreted the markup.
DRAWN = "img[src=x], main b, main script"


def hostile(value: Any, real: Set[str], name: str = "") -> Any:
    """Return the value with markup in each text, except times and texts that must stay real."""
    if isinstance(value, dict):
        return {key: hostile(each, real, key) for key, each in value.items()}
    if isinstance(value, list):
        return [hostile(each, real, name) for each in value]
    return value + MARKUP if isinstance(value, str) and name not in TIMES | real else value


async def forge(page: Page, *, names: bool) -> None:
    """Add markup to each text of the API's responses, except the event stream.

    Arguments:
        names: also change names of revisions; requests for one revision get its real name.
    """

    async def answer(route: Route) -> None:
        real = await route.fetch()
        told = hostile(await real.json(), frozenset() if names else {"namespace", "name"})
        if "activator" in told and "manifestErrors" in told["activator"]:
            told["activator"]["manifestErrors"] = {MARKUP: MARKUP}
        await route.fulfill(response=real, body=json.dumps(told))

    await page.route(re.compile(r"/api/v1/(revisions|history)"), answer)


async def test_every_text_of_the_overview(site: Site, open_page: Open, faults: Faults) -> None:
    # A slow page may request a revision by its changed name, with slashes.
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
    faults.expect("404")  # the revision does not exist
    page = await open_page(f"{site.url}#/revisions/default/{quote(MARKUP, safe='')}")
    await expect(page.get_by_role("heading", level=1)).to_have_text(f"default/{MARKUP}")
    await expect(page.get_by_text("This activator has no revision, Serv")).to_be_visible()
    async with site.app("named-otherwise"):
        await page.goto(f"{site.url}#/?filter={quote(MARKUP)}")
        await page.reload()
        await expect(page.locator("#empty")).to_contain_text(MARKUP)
    await expect(page.locator(DRAWN)).to_have_count(0)
