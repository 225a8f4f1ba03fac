"""The appearance: light and dark, on narrow screens, and for screen readers."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page, ViewportSize, expect

from tests.browser.conftest import Open
from tests.browser.site import App, Site

#: Pixels of the narrowest screen (WCAG 2.2, 1.4.10).
NARROW: ViewportSize = {"width": 320, "height": 640}
#: Elements beyond the right edge, except scrolling elements and texts for screen readers.
BEYOND = """() => [...document.body.querySelectorAll("*")].filter((each) => {
    const { right, width } = each.getBoundingClientRect();
    return width > 1 && right > innerWidth && !each.closest("thead, pre, .unseen");
}).map((each) => each.outerHTML.slice(0, 120))"""


async def narrow(page: Page) -> None:
    """Give a page the narrowest screen."""
    await page.set_viewport_size(NARROW)


async def shown(page: Page, app: App) -> None:
    """Wait until the page shows all parts of a revision."""
    if "revisions/" in page.url:
        await expect(page.locator(".answer.waits")).to_be_visible()
        await expect(page.locator(".cold-start-bar")).to_be_visible()
        await expect(page.locator("canvas")).to_be_visible()
    else:
        await expect(page.locator(f'tr.waiting[data-revision="{app.key}"]')).to_be_visible()


async def test_the_colours_are_the_systems_until_others_are_chosen(
    site: Site, open_page: Open
) -> None:
    page = await open_page(site.url, lambda page: page.emulate_media(color_scheme="dark"))
    colours = page.locator("html")
    await expect(colours).to_have_css("color-scheme", "dark")
    await page.emulate_media(color_scheme="light")
    await expect(colours).to_have_css("color-scheme", "light")
    await page.get_by_role("button", name="Switch to dark colours").click()
    await expect(colours).to_have_css("color-scheme", "dark")
    await page.reload()
    await expect(colours).to_have_css("color-scheme", "dark")
    await page.get_by_role("button", name="Switch to light colours").click()
    await expect(colours).to_have_css("color-scheme", "light")
    # This is the system's theme, so the page follows the system again.
    await page.emulate_media(color_scheme="dark")
    await expect(colours).to_have_css("color-scheme", "dark")


async def violations(page: Page, rules: list[str] | None = None) -> list[str]:
    """Return the findings of axe: each rule with the elements that break it."""
    options: dict[str, Any] = {"resultTypes": ["violations"]}
    if rules is not None:
        options["runOnly"] = {"type": "rule", "values": rules}
    found = (await Axe().run(page, options=options)).response["violations"]
    return [f"{one['help']}: {[node['html'] for node in one['nodes']]}" for one in found]


async def test_everybody_can_use_the_overview(own_site: Site, open_page: Open) -> None:
    page = await open_page(own_site.url)
    await expect(
        page.get_by_text("No revision, Service or route object is known yet.", exact=True).first
    ).to_be_visible()
    assert await violations(page) == []
    async with own_site.app("idle"), own_site.app("asked") as app:
        app.ask()
        await shown(page, app)
        assert await violations(page) == []
        await page.emulate_media(color_scheme="dark")
        assert await violations(page, ["color-contrast"]) == []


async def test_everybody_can_use_the_page_of_a_revision(
    site: Site, lived: App, open_page: Open
) -> None:
    async with site.app("still") as still, lived.full(3):
        page = await open_page(site.page_of(still))
        await expect(page.get_by_text("None yet. ")).to_be_visible()
        assert await violations(page) == []
        await page.emulate_media(color_scheme="dark")
        await page.goto(site.page_of(lived))
        await shown(page, lived)
        assert await violations(page) == []
        await page.emulate_media(color_scheme="light")
        assert await violations(page, ["color-contrast"]) == []


async def test_a_narrow_screen_needs_no_scrolling_sideways(
    site: Site, lived: App, open_page: Open
) -> None:
    long = "a-revision-with-a-name-as-long-as-names-become-in-clusters-00042"
    async with site.app(long) as app, lived.full(3):
        app.ask()
        for url, what in ((site.url, app), (site.page_of(lived), lived)):
            page = await open_page(url, narrow)
            await shown(page, what)
            assert await page.evaluate(BEYOND) == []
            assert await page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
