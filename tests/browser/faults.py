"""What a page must not do: errors on its console, failed requests, requests elsewhere, dialogs."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from playwright.async_api import BrowserContext, ConsoleMessage, Dialog, Request, Response, WebError

#: What a browser gives up itself, as the stream of events when a page is left.
GIVEN_UP = "net::ERR_ABORTED"


class Faults:
    """Notes them; a violation of the Content-Security-Policy is an error on the console."""

    def __init__(self) -> None:
        self._noted: list[str] = []
        self._expected: list[str] = []

    def expect(self, pattern: str) -> None:
        """Say that the test itself is the cause of those that a regular expression finds."""
        self._expected.append(pattern)

    def unexpected(self) -> list[str]:
        """Return those that no test has said to be the cause of."""
        return [
            fault
            for fault in self._noted
            if not any(re.search(pattern, fault) for pattern in self._expected)
        ]

    def watch(self, context: BrowserContext, url: str) -> None:
        """Note what the pages of a context do.

        Arguments:
            url: of the only host and port that they may ask.
        """
        origin = urlsplit(url)[:2]

        def asked(request: Request) -> None:
            if not request.url.startswith("data:") and urlsplit(request.url)[:2] != origin:
                self._noted.append(f"asks elsewhere: {request.url}")

        context.on("console", self._said)
        context.on("weberror", self._failed)
        context.on("dialog", self._asked)
        context.on("request", asked)
        context.on("requestfailed", self._unanswered)
        context.on("response", self._refused)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning", "assert"):
            self._noted.append(f"console.{message.type}: {message.text}")

    def _failed(self, error: WebError) -> None:
        self._noted.append(f"not caught: {error.error.stack or error.error.message}")

    async def _asked(self, dialog: Dialog) -> None:
        self._noted.append(f"a dialog: {dialog.message}")
        await dialog.dismiss()

    def _unanswered(self, request: Request) -> None:
        if request.failure != GIVEN_UP:
            self._noted.append(f"{request.failure}: {request.url}")

    def _refused(self, response: Response) -> None:
        if response.status >= 400:
            self._noted.append(f"{response.status}: {response.url}")
