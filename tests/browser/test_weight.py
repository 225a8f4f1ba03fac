"""The cost of the dashboard: bytes on the wire, and changes of the page."""

from __future__ import annotations

import json
from typing import Any

from playwright.async_api import Page, Request, expect

from activator.lab.objects import revision
from tests.browser.conftest import Open
from tests.browser.site import App, Site

#: Most bytes on the wire of the overview, and of the page of a revision with its chart.
#: Both depend only on the files. Raise them only on purpose.
OVERVIEW_BYTES = 57_600
REVISION_BYTES = 80_000
MANY = 1000


async def test_the_files_are_small(site: Site, lived: App, open_page: Open) -> None:
    for url, ready, most in (
        (site.url, f'tr[data-revision="{lived.key}"]', OVERVIEW_BYTES),
        (site.page_of(lived), "canvas", REVISION_BYTES),
    ):
        asked: list[Request] = []

        async def note(page: Page, asked: list[Request] = asked) -> None:
            page.on("requestfinished", lambda request: asked.append(request))

        page = await open_page(url, note, own=True)
        await expect(page.locator(ready).first).to_be_visible()
        sizes = [await one.sizes() for one in asked if "/api/" not in one.url]
        assert 0 < sum(size["responseBodySize"] for size in sizes) < most


#: Counts the changes of a page's elements.
COUNTING = """() => {
    window.changes = 0;
    new MutationObserver((records) => { window.changes += records.length; }).observe(
        document.documentElement,
        { subtree: true, childList: true, attributes: true, characterData: true },
    );
}"""


async def changes_of_a_wait(page: Page, app: App) -> int:
    """Return the number of changed elements from the start of a queue to its end."""
    row = page.locator(f'tr[data-revision="{app.key}"]')
    await expect(page.locator("#connection")).to_have_text("live")
    await page.evaluate(COUNTING)
    (held,) = app.ask()
    await expect(row.locator(".reason")).to_have_text("no-endpoints")
    await app.start_pod()
    await held
    await expect(row.locator(".reason")).to_have_text("ready")
    found: int = await page.evaluate("window.changes")
    return found


async def test_a_thousand_revisions_cost_what_a_few_do(own_site: Site, open_page: Open) -> None:
    many = [revision(f"many-{place:04d}") for place in range(MANY)]
    async with own_site.app("few") as app:
        few = await changes_of_a_wait(await open_page(own_site.url), app)
    (own_site.manifests / "many.json").write_text(json.dumps(_list(many)))
    await own_site.activator.queued(f"many-{MANY - 1:04d}", 0)
    async with own_site.app("one-of-many") as app:
        page = await open_page(own_site.url)
        await expect(page.locator("#shown")).to_have_text("1,001 revisions")
        assert await changes_of_a_wait(page, app) < 2 * few
        # The page never has a row for each revision: of the idle ones it shows the first.
        await page.get_by_role("button", name="idle revisions").click()
        await expect(page.locator("tr[data-revision]").nth(99)).to_be_attached()
        assert await page.locator("tr[data-revision]").count() <= 101
        await page.get_by_role("button", name="Show 100 more").click()
        await expect(page.locator("tr[data-revision]").nth(199)).to_be_attached()


#: Draws a list of events once per event, for many events.
DRAWING = """async (many) => {
    const { EventList } = await import("/dashboard/event_list.js");
    const [list, events] = [new EventList(() => {}), []];
    list.look("a/b");
    for (let n = 0; n < many; n += 1) {
        events.unshift({kind: "a-kind", time: "2026-03-01T12:00:00Z", revision: "a/b"});
        list.draw(events, {protocol: "http1"});
    }
    window.kept = [list, events];
}"""


async def test_events_that_are_not_shown_any_more_have_no_elements(
    site: Site, open_page: Open
) -> None:
    page = await open_page(site.url)
    inspector = await page.context.new_cdp_session(page)

    async def nodes_of(events: int) -> int:
        await page.evaluate(DRAWING, events)
        await inspector.send("HeapProfiler.collectGarbage")
        counted = await inspector.send("Memory.getDOMCounters")
        return int(counted["nodes"])

    few = await nodes_of(60)
    assert await nodes_of(400) < few + 100


def _list(items: list[Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": items}
