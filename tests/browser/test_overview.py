"""The overview: which requests wait, where, since when and why."""

from __future__ import annotations

import asyncio
import re

from playwright.async_api import Locator, Page, expect

from tests.browser.conftest import Open
from tests.browser.faults import Faults
from tests.browser.site import App, Site


def row_of(page: Page, app: App) -> Locator:
    return page.locator(f'tr[data-revision="{app.key}"]')


def cell(row: Locator, name: str) -> Locator:
    return row.locator(f'[data-label="{name}"]')


async def keys(page: Page) -> list[str]:
    """Return the revisions of the table, from top to bottom."""
    found: list[str] = await page.locator("tr[data-revision]").evaluate_all(
        "rows => rows.map((row) => row.dataset.revision)"
    )
    return found


async def test_a_held_request_appears_with_its_reason_and_goes_when_it_is_served(
    site: Site, open_page: Open
) -> None:
    async with site.app("comes-and-goes") as app:
        page = await open_page(f"{site.url}#/?filter=comes-and-goes")
        row = row_of(page, app)
        await expect(cell(row, "Why")).to_have_text("scaled to zero")
        await expect(cell(row, "Pods").get_by_role("img")).to_have_accessible_name("no pods")
        (held,) = app.ask()
        await expect(cell(row, "Queued").locator(".number")).to_have_text("1")
        await expect(cell(row, "Oldest")).to_contain_text(re.compile(r"^\d+\.\d s"))
        await expect(cell(row, "Oldest")).to_contain_text(re.compile(r"since \d\d:\d\d:\d\d$"))
        await expect(cell(row, "Why")).to_have_text(
            "no-endpointsKubernetes lists no pod of this revision."
        )
        await expect(page.get_by_role("heading", level=1)).to_have_text(
            re.compile(r"^1 request waits, the first for \d+(\.\d)? s$")
        )
        await expect(page.locator("#subline")).to_contain_text(f"In {app.key} since")
        await expect(page).to_have_title("1 queued – activator")
        await app.start_pod()
        assert (await held)[0] == 200
        await expect(cell(row, "Queued").locator(".number")).to_have_text("0")
        await expect(cell(row, "Why")).to_have_text("ready")
        await expect(cell(row, "Pods").get_by_role("img")).to_have_accessible_name(
            "1 pod: 1 in use"
        )
        await expect(page.get_by_role("heading", level=1)).to_have_text("No request waits")
        await expect(page).to_have_title("activator")


async def test_a_held_request_appears_within_a_second(site: Site, open_page: Open) -> None:
    # The best of several, because the machine may be busy.
    async with site.app("soon-1") as one, site.app("soon-2") as two, site.app("soon-3") as three:
        page = await open_page(site.url)
        took = []
        for app in (one, two, three):
            await expect(row_of(page, app)).to_be_visible()
            began = asyncio.get_running_loop().time()
            app.ask()
            await page.wait_for_selector(f'tr.waiting[data-revision="{app.key}"]')
            took.append(asyncio.get_running_loop().time() - began)
    assert min(took) < 1


async def test_the_capacity_of_a_full_revision(site: Site, open_page: Open) -> None:
    async with site.app("full", pods=1, container_concurrency=2) as app:
        page = await open_page(f"{site.url}#/?filter=full")
        row = row_of(page, app)
        await expect(cell(row, "In flight").locator(".number")).to_have_text("0 / 2")
        app.gate.clear()
        asked = app.ask(5)
        await expect(cell(row, "In flight").locator(".number")).to_have_text("2 / 2")
        await expect(cell(row, "Queued").locator(".number")).to_have_text("3")
        await expect(cell(row, "Why").locator(".reason")).to_have_text("at-capacity")
        app.gate.set()
        assert [status for status, _ in await asyncio.gather(*asked)] == [200] * 5
        await expect(cell(row, "In flight").locator(".number")).to_have_text("0 / 2")


async def test_what_waits_is_above_what_is_busy_above_what_is_idle(
    site: Site, open_page: Open
) -> None:
    async with (
        site.app("order-d"),
        site.app("order-c", pods=1) as busy,
        site.app("order-b") as second,
        site.app("order-a") as idle,
        site.app("order-e") as first,
    ):
        busy.gate.clear()
        busy.ask()
        first.ask()
        await site.activator.queued(first.name, 1)
        second.ask()
        page = await open_page(f"{site.url}#/?filter=order-")
        order = [first.key, second.key, busy.key, idle.key, "default/order-d"]
        await expect(page.locator("tr[data-revision]")).to_have_count(5)
        await expect(page.locator("tr.waiting")).to_have_count(2)
        assert await keys(page) == order
        # A later queue stands below earlier queues, independent of its name.
        idle.ask()
        await expect(page.locator("tr.waiting")).to_have_count(3)
        assert await keys(page) == [first.key, second.key, idle.key, busy.key, "default/order-d"]


async def test_the_filter_and_what_waits_alone_are_kept_in_the_address(
    site: Site, open_page: Open
) -> None:
    async with site.app("kept-one") as one, site.app("kept-two") as two, site.app("other") as other:
        two.ask()
        page = await open_page(site.url)
        await page.get_by_label("Filter by name").fill("KEPT default")
        await expect(row_of(page, one)).to_be_visible()
        await expect(row_of(page, two)).to_be_visible()
        await expect(row_of(page, other)).to_have_count(0)
        await page.get_by_label("only with queued requests").check()
        await expect(row_of(page, one)).to_have_count(0)
        await expect(row_of(page, two)).to_be_visible()
        await expect(page).to_have_url(f"{site.url}#/?filter=KEPT+default&show=waiting")
        await page.get_by_label("Filter by name").fill("nothing like it")
        await expect(page.get_by_text("No revision has queued requests.")).to_be_visible()
        again = await open_page(f"{site.url}#/?filter=KEPT+default&show=waiting", own=True)
        await expect(row_of(again, two)).to_be_visible()
        await expect(row_of(again, one)).to_have_count(0)
        await expect(again.get_by_label("only with queued requests")).to_be_checked()


async def test_the_filter_comes_back_with_the_way_back(site: Site, open_page: Open) -> None:
    async with site.app("there-and-back") as app:
        page = await open_page(f"{site.url}#/?filter=there-and")
        await row_of(page, app).get_by_role("link").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text(app.key)
        await page.get_by_role("link", name="Overview").click()
        await expect(page.get_by_label("Filter by name")).to_have_value("there-and")
        await expect(page.locator("tr[data-revision]")).to_have_count(1)


async def test_a_revision_that_is_made_and_one_that_is_taken_away(
    site: Site, open_page: Open
) -> None:
    page = await open_page(site.url)
    async with site.app("fleeting", pods=1) as app:
        await expect(row_of(page, app)).to_be_visible()
    await expect(row_of(page, app)).to_have_count(0)


async def test_the_keyboard_alone(site: Site, open_page: Open) -> None:
    async with site.app("by-keyboard") as app, site.app("another"):
        page = await open_page(site.url)
        await expect(row_of(page, app)).to_be_visible()
        await page.keyboard.press("Tab")
        await expect(page.get_by_role("link", name="Skip to the table")).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(page.locator("main")).to_be_focused()
        await page.keyboard.press("/")
        await expect(page.get_by_label("Filter by name")).to_be_focused()
        await page.keyboard.type("by-key")
        await expect(page.locator("tr[data-revision]")).to_have_count(1)
        link = row_of(page, app).get_by_role("link")
        for _ in range(4):  # the checkbox and the button of idle revisions come before
            await page.keyboard.press("Tab")
            if await link.evaluate("link => link === document.activeElement"):
                break
        await expect(link).to_be_focused()
        await page.keyboard.press("Enter")
        # Screen readers get the position.
        await expect(page.get_by_role("heading", name=app.key)).to_be_focused()
        await page.keyboard.press("Shift+Tab")
        await expect(page.get_by_role("link", name="Overview")).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(link).to_be_focused()  # the old position


async def test_an_address_that_leads_nowhere_is_said(site: Site, open_page: Open) -> None:
    page = await open_page(f"{site.url}#/revision/default/one")
    stray = page.get_by_text("There is no page “revision/default/one”; this is the overview")
    await expect(stray).to_be_visible()
    await page.evaluate("location.hash = '#/'")
    await expect(stray).to_be_hidden()


async def test_the_title_of_a_hidden_page_says_since_when_it_is(
    site: Site, open_page: Open
) -> None:
    page = await open_page(site.url)
    await expect(page.locator("#connection")).to_have_text("live")
    turn = """(hidden) => {
        Object.defineProperty(document, "hidden", {value: hidden, configurable: true});
        document.dispatchEvent(new Event("visibilitychange"));
    }"""
    await page.evaluate(turn, True)
    await expect(page).to_have_title(re.compile(r"^as of \d\d:\d\d:\d\d: .*activator$"))
    await page.evaluate(turn, False)
    await expect(page).not_to_have_title(re.compile("as of"))


async def test_without_scripts_there_is_nothing_that_does_nothing(
    site: Site, open_page: Open, faults: Faults
) -> None:
    faults.expect("csp")  # the browser reports blocked scripts this way
    page = await open_page(site.url, java_script_enabled=False)
    await expect(page.get_by_role("button")).to_have_count(0)
    await expect(page.locator("#connection")).to_be_hidden()


async def test_an_object_without_effect_is_a_problem_of_its_pages(
    site: Site, open_page: Open
) -> None:
    misspelt = {"activator.dev/load-balancin": "hash"}
    warning = "'activator.dev/load-balancin' is unknown and has no effect; did you mean"
    async with site.app("misspelt", annotations=misspelt) as app:
        page = await open_page(site.page_of(app))
        await expect(page.get_by_role("region", name="Limits and use")).to_contain_text(warning)
        await page.goto(site.url)
        notices = page.get_by_role("list", name="Problems")
        await expect(notices).to_contain_text(f"Revision {app.key}: the annotation {warning}")
    await expect(notices).to_be_hidden()


async def test_what_is_wrong_is_said_until_it_is_right(site: Site, open_page: Open) -> None:
    broken = site.manifests / "<img src=x onerror=alert(1)>.yaml"  # a file may have any name
    broken.write_text("{")
    await site.activator.logged(broken.name)
    page = await open_page(site.url)
    notices = page.get_by_role("list", name="Problems")
    await expect(notices.get_by_role("listitem")).to_contain_text(broken.name)
    await expect(page.locator("img[src=x]")).to_have_count(0)
    broken.unlink()  # no event reports this
    await expect(notices).to_be_hidden()
