"""Record faults of pages: console errors, failed requests, requests to other hosts, dialogs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import BrowserContext, ConsoleMessage, Dialog, Request, Response, WebError

#: The error of a request that the browser cancels, such as the event stream of a closed page.
GIVEN_UP = "net::ERR_ABORTED"


class Faults:
    """The record; a violation of the Content-Security-Policy is a console error."""

    def __init__(self) -> None:
        self._noted: list[str] = []
        self._expected: list[str] = []

    def expect(self, pattern: str) -> None:
        """Declare that the test causes the faults that a regular expression matches."""
        self._expected.append(pattern)

    def unexpected(self) -> list[str]:
        """Return the faults that no test has declared."""
        return [
            fault
            for fault in self._noted
            if not any(re.search(pattern, fault) for pattern in self._expected)
        ]

    def watch(self, context: BrowserContext, url: str) -> Callable[[], None]:
        """Record the faults of the pages of a context, until the returned function is called.

        Arguments:
            url: the only host and port to which they may send requests.
        """
        origin = urlsplit(url)[:2]

        def asked(request: Request) -> None:
            if not request.url.startswith("data:") and urlsplit(request.url)[:2] != origin:
                self._noted.append(f"asks elsewhere: {request.url}")

        listeners: dict[str, Callable[[Any], Any]] = {
            "console": self._said,
            "weberror": self._failed,
            "dialog": self._asked,
            "request": asked,
            "requestfailed": self._unanswered,
            "response": self._refused,
        }
        for name, listener in listeners.items():
            context.on(name, listener)  # type: ignore[call-overload] # a name in a variable

        def end() -> None:
            for name, listener in listeners.items():
                context.remove_listener(name, listener)

        return end

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
