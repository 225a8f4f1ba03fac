"""The texts of the page while the activator does not respond, and afterwards."""

from __future__ import annotations

import re
import signal

from playwright.async_api import expect

from tests.browser.conftest import Open
from tests.browser.faults import Faults
from tests.browser.site import Site


async def test_a_lost_connection_is_said_and_comes_back_by_itself(
    own_site: Site, open_page: Open, faults: Faults
) -> None:
    faults.expect("ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_INCOMPLETE_CHUNKED|ERR_EMPTY")
    faults.expect(
        "ERR_SOCKET_NOT_CONNECTED"
    )  # the activator may end between connection and request
    async with own_site.app("stays") as app:
        page = await open_page(own_site.url)
        connection = page.locator("#connection")
        row = page.locator(f'tr[data-revision="{app.key}"]')
        await expect(connection).to_have_text("live")
        await expect(row).to_be_visible()
        await expect(page.get_by_role("alert")).to_be_hidden()
        app.ask()
        await expect(page).to_have_title("1 queued – activator")
        # Before the time-out, the connection is neither lost nor live.
        own_site.activator.process.send_signal(signal.SIGSTOP)
        await expect(connection).to_have_text(re.compile(r"^no response since \d\d:\d\d:\d\d$"))
        own_site.activator.process.send_signal(signal.SIGCONT)
        await expect(connection).to_have_text("live")
        await own_site.stop()
        await expect(page.get_by_role("alert")).to_have_text(
            re.compile(r"Connection lost at \d\d:\d\d:\d\d.*\. The page shows the state of that")
        )
        await expect(connection).to_have_text(re.compile(r"^lost since \d\d:\d\d:\d\d$"))
        await expect(page).to_have_title("connection lost – activator")
        await expect(row).to_be_visible()
        await own_site.start()
        await expect(page.get_by_role("alert")).to_be_hidden()
        await expect(connection).to_have_text(re.compile("live"))
        # Another process responds now, without the old history.
        notices = page.get_by_role("list", name="Problems")
        await expect(notices).to_contain_text(
            re.compile(r"restarted at \d\d:\d\d:\d\d\. Requests that it had in flight are lost")
        )
        await expect(page.locator(".tiles .sparkline")).to_have_accessible_name(
            re.compile(r"no queued request within the last \d+(\.\d)? s$")
        )
        app.ask()
        await expect(row.locator(".reason")).to_have_text("no-endpoints")
