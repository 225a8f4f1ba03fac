"""The page of the scaler, against a scaler and a control plane on this machine."""

from __future__ import annotations

import json
import re
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, Route, expect

from tests.activator.scale.world import Running, cluster, leader, scaler
from tests.browser.conftest import Open
from tests.browser.faults import Faults
from tests.browser.test_appearance import BEYOND, NARROW, narrow, violations
from tests.browser.test_markup import DRAWN, MARKUP, hostile

MANY = 5000


@pytest.fixture
async def running(tmp_path: Path, servers: AsyncExitStack) -> Running:
    """Provide a leader: `asleep` sleeps, `lost` has no workload."""
    kube = await servers.enter_async_context(cluster(tmp_path))
    await kube.add("asleep")
    await kube.add("lost", target="deployment/missing")
    return await servers.enter_async_context(leader(kube, dashboard_url="http://dash.example/x"))


def url(running: Running, fragment: str = "") -> str:
    """Return the address of the page."""
    return f"http://{running.scaler.addresses['admin']}/{fragment}"


async def test_the_table_follows_the_scaler(
    running: Running, servers: AsyncExitStack, open_page: Open
) -> None:
    activator = await servers.enter_async_context(running.activator())
    page = await open_page(url(running))
    rows = page.locator("tr[data-service]")
    await expect(rows.first).to_have_attribute("data-service", "shop/lost")
    await expect(rows.first.locator(".reason")).to_have_text("no-scalable-target")
    await expect(page.locator("#headline")).to_have_text("1 Service has a problem")
    await expect(page.locator("#leader")).to_have_text("leads")
    await expect(page.locator("#activators")).to_contain_text("no report yet")
    row = page.locator('tr[data-service="shop/asleep"]')
    await expect(row.locator(".phase")).to_have_text("asleep")
    activator.hold(3, "asleep")
    await expect(row.locator(".phase")).to_have_text("starting")
    await expect(row.locator(".change")).to_contain_text("0 → 1")
    await expect(row.locator(".load")).to_have_text("3")
    await expect(page.locator("#activators")).to_contain_text("activator-1 (127.0.0.1)")
    # The filter is part of the address, and so is the Service of a page.
    await page.keyboard.press("/")
    await page.keyboard.type("no-scalable")
    await expect(rows).to_have_count(1)
    await expect(page.locator("#shown")).to_have_text("1 of 2")
    await expect(page).to_have_url(re.compile(r"#/\?filter=no-scalable$"))
    await rows.first.get_by_role("link").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("shop/lost")
    why = page.get_by_role("region", name="Why")
    await expect(why).to_contain_text("Create the workload, or name another object")
    await expect(why.locator("pre").first).to_contain_text("kubectl -n shop get deployments")
    link = page.get_by_role("link", name="Its requests, on the activator's dashboard")
    await expect(link).to_have_attribute("href", "http://dash.example/x/#/services/shop/lost")
    await page.get_by_role("link", name="All Services").click()
    await expect(page.locator("#filter")).to_have_value("no-scalable")


async def test_a_follower_names_the_leader_and_a_lost_scaler_is_stale(
    tmp_path: Path, open_page: Open, faults: Faults
) -> None:
    faults.expect("ERR_CONNECTION_REFUSED")
    async with cluster(tmp_path) as kube, leader(kube, "scale-1"):
        async with scaler(kube, "scale-2") as second:
            page = await open_page(url(second))
            await expect(page.locator("#headline")).to_have_text("This scaler does not lead")
            await expect(page.locator("#subline")).to_contain_text("scale-1 leads")
            await expect(page.locator("#subline")).to_contain_text("port-forward pod/scale-1 8081")
        await expect(page.locator("#lost")).to_contain_text("Connection lost at")
        await expect(page.locator("#headline")).to_contain_text("Last known:")
        await expect(page.locator("html.stale")).to_have_count(1)


async def test_every_text_is_text(running: Running, open_page: Open) -> None:
    words = {"reason", "phase", "owner", "namespace", "name"}

    async def forge(page: Page) -> None:
        async def answer(route: Route) -> None:
            real = await route.fetch()
            forged: Any = hostile(await real.json(), words, "")
            if "phases" in str(forged):
                forged["summary"]["phases"] = {}
            if "watches" in forged:
                forged["watches"] = {MARKUP: {"ageSeconds": 1, "error": MARKUP}}
                forged["dashboard"] = None
            await route.fulfill(response=real, body=json.dumps(forged))

        await page.route("**/api/v1/**", answer)

    page = await open_page(url(running), forge)
    await expect(page.locator(".because").first).to_contain_text(MARKUP)
    await expect(page.locator("#notices")).to_contain_text(MARKUP)
    await expect(page.locator(".bar-top")).to_contain_text(MARKUP)
    await page.goto(url(running, "#/services/shop/lost"))
    await expect(page.get_by_role("region", name="Why")).to_contain_text(MARKUP)
    await expect(page.locator(DRAWN)).to_have_count(0)


async def test_five_thousand_services_are_paged(running: Running, open_page: Open) -> None:
    real = (await running.get("/api/v1/services")).json()
    asked: list[str] = []

    async def forge(page: Page) -> None:
        async def answer(route: Route) -> None:
            asked.append(route.request.url)
            offset = int(route.request.url.partition("offset=")[2].partition("&")[0])
            services = [
                real["services"][0] | {"name": f"s{number:04}"}
                for number in range(offset, min(MANY, offset + 50))
            ]
            summary = real["summary"] | {"services": MANY}
            view = real | {"services": services, "matching": MANY, "summary": summary}
            await route.fulfill(json=view)

        await page.route("**/api/v1/services?*", answer)

    page = await open_page(url(running), forge)
    rows = page.locator("tr[data-service]")
    await expect(rows).to_have_count(50)
    await expect(page.locator("#place")).to_have_text("1 to 50 of 5,000")
    await page.get_by_role("button", name="Next").click()
    await expect(rows.first).to_have_attribute("data-service", "shop/s0050")
    await expect(page).to_have_url(re.compile(r"#/\?page=2$"))
    assert all("limit=50" in each for each in asked)


async def test_everybody_can_use_the_page_also_on_a_narrow_screen(
    running: Running, servers: AsyncExitStack, open_page: Open
) -> None:
    activator = await servers.enter_async_context(running.activator())
    activator.hold(1, "asleep")
    for fragment, shown in (
        ("", "tr[data-service]"),
        ("#/services/shop/lost", "pre"),
        ("#/services/shop/asleep", "h1:visible"),
    ):
        page = await open_page(url(running, fragment), narrow)
        await expect(page.locator(shown).first).to_be_visible()
        assert await page.evaluate(BEYOND) == []
        assert await page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
        assert await violations(page) == []
        await page.emulate_media(color_scheme="dark")
        assert await violations(page, ["color-contrast"]) == []
