"""The waiting page in a browser: for all users, on all screens, and until the service opens."""

from __future__ import annotations

from playwright.async_api import expect

from activator.lab.objects import PodAddress, private_endpoints, write_object
from tests.browser.conftest import Open
from tests.browser.faults import Faults
from tests.browser.site import Site
from tests.browser.test_appearance import BEYOND, NARROW, violations

PAGES = {"activator.dev/while-waiting": "page", "activator.dev/page-after-seconds": "0"}
#: Browsers delay the timers of a hidden tab. When it is shown, the page must go on at once.
SHOWN_AGAIN = """() => {
    for (let timer = 0; timer < 10000; timer++) clearTimeout(timer);
    document.dispatchEvent(new Event("visibilitychange"));
}"""
NAME = "a-service-with-a-name-as-long-as-names-become-in-clusters-00042"


async def test_a_person_sees_how_far_the_start_is_and_then_the_service(
    site: Site, open_page: Open, faults: Faults
) -> None:
    # The page itself, its peeks, and the icon of the pod's page; no other fault may occur.
    faults.expect(r"\b503\b|favicon|404 \(Not Found\)")
    host, port = await site.activator.address("http")
    url = f"http://{host}:{port}/?item=1"
    headers = {"Knative-Serving-Namespace": "default", "Knative-Serving-Revision": NAME}
    async with site.app(NAME, annotations=PAGES) as app:
        look = {"color_scheme": "dark", "viewport": NARROW, "extra_http_headers": headers}
        page = await open_page(url, **look)
        await expect(page.get_by_role("heading")).to_have_text(f"{NAME} is starting")
        await expect(page.get_by_role("status")).to_have_text("A new instance is requested.")
        await expect(page.locator("body")).to_have_css("background-color", "rgb(20, 24, 31)")
        assert await violations(page) == []
        await page.emulate_media(color_scheme="light")
        await expect(page.locator("body")).to_have_css("background-color", "rgb(246, 247, 249)")
        assert await violations(page, ["color-contrast"]) == []
        assert await page.evaluate(BEYOND) == []
        assert await page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
        assert await page.evaluate("document.querySelectorAll('[tabindex], button').length") == 0
        without_scripts = await open_page(url, java_script_enabled=False, **look)
        await expect(without_scripts.get_by_role("heading")).to_be_visible()
        refresh = without_scripts.locator("meta[http-equiv=refresh]")
        await expect(refresh).to_have_attribute("content", "5")
        nowhere = private_endpoints(NAME, [PodAddress("127.0.0.99", 9)])
        write_object(site.manifests, nowhere)
        status = page.get_by_role("status")
        await expect(status).to_have_text("An instance runs. It does not respond yet.")
        await page.evaluate(SHOWN_AGAIN)
        await app.start_pod(ready=False)
        await expect(page.locator("body")).to_contain_text("Hello from")
        assert page.url == url


async def test_the_page_of_a_busy_service_waits_for_its_turn(
    site: Site, open_page: Open, faults: Faults
) -> None:
    faults.expect(r"\b503\b|favicon|404 \(Not Found\)")
    host, port = await site.activator.address("http")
    headers = {"Knative-Serving-Namespace": "default", "Knative-Serving-Revision": NAME}
    async with site.app(NAME, container_concurrency=1, annotations=PAGES) as app:
        page = await open_page(f"http://{host}:{port}/", extra_http_headers=headers)
        await expect(page.get_by_role("status")).to_have_text("A new instance is requested.")
        reloads = page.expect_request(lambda sent: sent.is_navigation_request())
        async with app.full(3), reloads:
            await app.start_pod()
            await page.evaluate(SHOWN_AGAIN)
        await expect(page.locator("body")).to_contain_text("Hello from")


async def test_the_page_of_a_service_that_does_not_start_ends_with_the_reason(
    site: Site, open_page: Open, faults: Faults
) -> None:
    faults.expect(r"\b50[34]\b|favicon")
    host, port = await site.activator.address("http")
    headers = {"Knative-Serving-Namespace": "default", "Knative-Serving-Revision": NAME}
    async with site.app(NAME, annotations=PAGES, timeout=1):
        page = await open_page(f"http://{host}:{port}/", extra_http_headers=headers)
        await expect(page.get_by_role("heading")).to_have_text(f"{NAME} is starting")
        await expect(page.get_by_role("heading")).to_have_text(f"{NAME} did not start")
        status = page.get_by_role("status")
        await expect(status).to_contain_text("did not start in time (no-endpoints)")
        await expect(page).to_have_title(f"{NAME} did not start")
        await expect(page.locator("main")).not_to_contain_text("Expected wait")
        requests: list[object] = []
        page.on("request", lambda request: requests.append(request))
        await page.evaluate(SHOWN_AGAIN)
        assert await violations(page) == []
        assert not requests
