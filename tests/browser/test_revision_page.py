"""The page of one revision: why requests wait, limits, history, pods, cold starts."""

from __future__ import annotations

import re
import socket

from playwright.async_api import Locator, Page, expect

from activator.lab.objects import revision, service, write_object
from tests.browser.conftest import Open
from tests.browser.faults import Faults
from tests.browser.site import App, Site
from tests.ports import hold, port_of


def section(page: Page, heading: str) -> Locator:
    return page.get_by_role("region", name=heading)


async def test_why_requests_wait_and_what_to_do(site: Site, open_page: Open) -> None:
    async with site.app("asleep") as app:
        page = await open_page(site.page_of(app))
        answer = section(page, "Why requests wait")
        await expect(page.get_by_role("heading", level=1)).to_have_text(app.key)
        await expect(answer).to_contain_text("No request waits.")
        await expect(answer).to_contain_text("no-endpoints A new request would wait.")
        app.ask(2)
        await expect(answer).to_contain_text(
            re.compile(r"2 requests wait, the first for .+; the queue began at \d\d:\d\d:\d\d\.")
        )
        await expect(answer).to_contain_text("Kubernetes lists no pod of this revision.")
        await expect(answer).to_contain_text(str(site.manifests))
        await expect(answer).to_contain_text("activator reason no-endpoints")
        await expect(section(page, "Limits and use")).to_contain_text("2 of at most 10,000")
        await expect(section(page, "Limits and use")).to_contain_text("Load balancing")
        await expect(section(page, "Pods")).to_contain_text("No pod is known.")


async def test_the_order_of_the_queue(site: Site, open_page: Open) -> None:
    words = {"priority": "low", "fair-by": "header:X-Tenant"}
    annotations = {f"activator.dev/{name}": value for name, value in words.items()}
    async with site.app("shared", annotations=annotations) as app:
        page = await open_page(site.page_of(app))
        app.ask(2)
        limits = section(page, "Limits and use")
        await expect(limits).to_contain_text("low by default; queued: 0 high, 0 normal, 2 low")
        await expect(limits).to_contain_text("header:x-tenant, 1 flow")
        await expect(limits).to_contain_text("(none): 2")


async def test_the_table_of_pods(site: Site, open_page: Open) -> None:
    async with site.app("two-pods", pods=2, container_concurrency=3) as app:
        async with app.full(6):
            page = await open_page(site.page_of(app))
            await expect(section(page, "Limits and use")).to_contain_text("2 usable pods × 3 = 6")
            await expect(section(page, "Limits and use")).to_contain_text("6 of 6")
            for pod in app.pods:
                row = page.locator(f'[data-pod="127.0.0.1:{pod.port}"]')
                await expect(row.locator('[data-label="Kubernetes"]')).to_have_text("ready")
                await expect(row.locator('[data-label="Probe"]')).to_contain_text("passed 200")
                await expect(row.locator('[data-label="Decision"]')).to_have_text("use")
                await expect(row.locator('[data-label="Rule"]')).to_have_text("probe-passed")
                await expect(row.locator('[data-label="In flight"]')).to_contain_text("3 / 3")
            await expect(section(page, "Pods")).to_contain_text(
                "Used: it passed the activator's own probe"
            )
        app.unlist_pods()
        await expect(section(page, "Why requests wait")).to_contain_text("no-endpoints")


async def test_a_cold_start_is_drawn_as_bars_with_its_events(site: Site, open_page: Open) -> None:
    async with site.app("waker") as app:
        page = await open_page(site.page_of(app))
        await expect(section(page, "Cold starts")).to_contain_text("None yet")
        await expect(section(page, "Events")).to_contain_text("None since this page was opened.")
        (held,) = app.ask()
        # The section also has a legend, which always has these words; it has no role.
        cold_start = section(page, "Cold starts").get_by_role("listitem")
        await expect(cold_start).to_contain_text("in progress")
        await app.start_pod()
        assert (await held)[0] == 200
        await expect(cold_start).to_have_count(1)
        await expect(cold_start).to_contain_text("served")
        await expect(cold_start).to_contain_text(
            f"1 request waited, first response from 127.0.0.1:{app.pods[0].port}"
        )
        # Each phase is a part of one bar, and a text has the same values.
        for phase in ("address", "probe", "probe-passed", "dispatched", "first-byte"):
            await expect(cold_start.locator(f".stretch.{phase}")).to_have_count(1)
            await expect(cold_start.locator(".small")).to_contain_text(phase)
        shares = await cold_start.locator(".stretch").evaluate_all(
            "parts => parts.map((part) => parseFloat(part.style.inlineSize))"
        )
        assert abs(sum(shares) - 100) < 0.5
        events = section(page, "Events").get_by_role("listitem")
        await expect(events.first).to_contain_text("cold start ended, served, after")
        await expect(events.last).to_contain_text("the queue began: Kubernetes lists no pod")


async def test_why_a_request_failed_is_told_at_once(site: Site, open_page: Open) -> None:
    async with site.app("failing", timeout=1) as app:
        page = await open_page(site.page_of(app))
        (failed,) = app.ask()
        assert (await failed)[0] == 504
        answer = section(page, "Why requests wait")
        await expect(answer).to_contain_text(
            re.compile(r"The last failure, .+ ago: 504 no-endpoints\. See activator reason no-")
        )
        await expect(section(page, "Limits and use")).to_contain_text("1 no-endpoints, since")
        await expect(section(page, "Events")).to_contain_text("1 request failed: 504")
        await page.goto(site.url)
        row = page.locator(f'[data-revision="{app.key}"]')
        await expect(row).to_contain_text("last 504 no-endpoints; present state: starting")


async def test_the_page_of_a_tcp_service_speaks_of_connections(site: Site, open_page: Open) -> None:
    held = hold()
    words = {"protocol": "tcp", "listen-port": str(port_of(held)), "timeout-seconds": "2"}
    manifest = service("opaque", annotations={"enabled": "true", **words})
    file = write_object(site.manifests, manifest)
    await site.activator.queued("opaque", 0)
    page = await open_page(f"{site.url}#/services/default/opaque")
    answer = section(page, "Why requests wait")
    await expect(answer).to_contain_text("No connection waits.")
    await expect(answer).to_contain_text("no-endpoints A new connection would wait.")
    limits = section(page, "Limits and use")
    await expect(limits).to_contain_text(re.compile("Connections\\s*tcp, 2.0 s of waiting at most"))
    with socket.create_connection(("127.0.0.1", port_of(held))) as client:
        client.send(b"x")
        await expect(answer).to_contain_text("1 connection waits, the first for")
        await expect(answer).to_contain_text(
            re.compile(r"The last failure, .+ ago: closed, no-endpoints\. See activator reason no-")
        )
    await expect(section(page, "Events")).to_contain_text("1 connection waited")
    assert not re.findall(r".*\brequests?\b.*", await page.locator("#revision").inner_text())
    file.unlink()
    held.close()


async def test_the_last_minutes_are_a_chart_a_sentence_and_a_table(
    site: Site, lived: App, open_page: Open
) -> None:
    page = await open_page(site.page_of(lived))
    queue = section(page, "Queue over time")
    await expect(queue.locator("canvas")).to_be_visible()
    await expect(queue).to_contain_text(re.compile(r"In this time: at most \d+ queued requests?"))
    await queue.get_by_text("As a table").click()
    await expect(queue.locator("tbody tr").first).to_be_visible()
    await queue.locator(".u-over").hover()
    await expect(queue).to_contain_text(re.compile(r"\d\d:\d\d:\d\d: \d+ queued, \d+ in flight"))


async def test_events_stand_still_while_somebody_reads(site: Site, open_page: Open) -> None:
    async with site.app("read") as app:
        page = await open_page(site.page_of(app))
        events = section(page, "Events")
        await expect(events).to_contain_text("None since this page was opened.")
        app.ask()
        await expect(events.get_by_role("listitem")).to_have_count(1)
        await events.get_by_role("button", name="Pause").click()
        await app.start_pod()
        await expect(events).to_contain_text(re.compile(r"[1-9]\d* more;"))
        await expect(events.get_by_role("listitem")).to_have_count(1)
        await events.get_by_role("button", name="Continue").click()
        await expect(events).to_contain_text("cold start ended")


async def test_a_revision_that_nobody_knows(site: Site, open_page: Open, faults: Faults) -> None:
    faults.expect("404")
    page = await open_page(f"{site.url}#/revisions/default/nobody")
    await expect(page.get_by_text("This activator has no revision, Serv")).to_be_visible()
    made = revision("nobody")
    made["spec"]["timeoutSeconds"] = -1
    write_object(site.manifests, made)
    cause = re.compile("Revision default/nobody: .*timeoutSeconds.*; it is not in use")
    await expect(page.get_by_text(cause)).to_be_visible()
    async with site.app("nobody") as app:
        app.ask()  # this is an event
        await expect(section(page, "Why requests wait")).to_be_visible()
    await expect(page.get_by_text("This activator has no revision, Serv")).to_be_visible()
