"""Parses the template of the waiting page, and builds the page and its responses."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from hashlib import sha256
from html import escape
from html.parser import HTMLParser
from math import ceil
from pathlib import Path
from typing import Final

from activator.proxy.message.own_responses import OwnResponse
from throttler.reason import Reason

# Parses the HTML template of a waiting page, and derives its Content-Security-Policy.
#
# A template is an HTML document without external resources. ``{{name}}`` is a placeholder, see
# ``PLACEHOLDERS``. The policy allows each inline script and style by its hash, and nothing else.
# Pure.

#: The values of a page, without the braces. ``polling`` stands for the script and the refresh.
PLACEHOLDERS: Final = ("name", "namespace", "phase", "step", "message", "forecast", "reason")
POLLING: Final = "polling"
#: Bytes of the longest template.
MOST_BYTES: Final = 256 << 10
#: The most inline scripts and styles: each adds a hash to a header field.
_MOST_INLINE: Final = 16

_PLACEHOLDER: Final = re.compile(r"\{\{[ \t]*([^{}\s]{1,40})[ \t]*\}\}")
_SCRIPT: Final = (Path(__file__).parent / "waiting_page.js").read_text("utf-8").strip()
#: Without scripts, a browser loads the page again after these seconds.
REFRESH_SECONDS: Final = 5
_SCRIPT_HTML: Final = f"<script>{_SCRIPT}</script>"
_REFRESH_HTML: Final = (
    f'<noscript><meta http-equiv="refresh" content="{REFRESH_SECONDS}"></noscript>\n'
)
_DATA_ONLY: Final = frozenset({"src", "srcset", "poster", "data", "background"})
_INLINE: Final = ("script", "style")


class Template:
    """One HTML template.

    Arguments:
        text: the template.

    Raises:
        ValueError: the template cannot be used; the text says why, and in which line.

    Attributes:
        policy: the value of Content-Security-Policy for its pages.
    """

    def __init__(self, text: str) -> None:
        text = text.replace("\r\n", "\n").replace("\r", "\n")  # as browsers hash it
        if len(text.encode()) > MOST_BYTES:
            raise ValueError(f"a template has at most {MOST_BYTES} bytes")
        pieces = _PLACEHOLDER.split(text)
        names = pieces[1::2]
        for name in names:
            if name not in (*PLACEHOLDERS, POLLING):
                allowed = ", ".join((*PLACEHOLDERS, POLLING))
                raise ValueError(f"{{{{{name}}}}} is unknown; the placeholders are {allowed}")
        if names.count(POLLING) != 1:
            raise ValueError("{{polling}} must occur once, inside <head>")
        checker = _Checker()
        checker.feed(text)
        checker.close()
        scripts = {_hash(_SCRIPT), *map(_hash, checker.found["script"])}
        styles = set(map(_hash, checker.found["style"]))
        if len(scripts) + len(styles) > _MOST_INLINE:
            raise ValueError(f"a template has at most {_MOST_INLINE} inline scripts and styles")
        self.policy: Final = (
            "default-src 'none'; connect-src 'self'; img-src data:; font-src data:; "
            f"script-src {' '.join(sorted(scripts))}; "
            f"style-src {' '.join(sorted(styles)) or chr(39) + 'none' + chr(39)}; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        self._pieces: Final = tuple(pieces)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Template) and other._pieces == self._pieces

    def __hash__(self) -> int:
        return hash(self._pieces)

    def render(self, values: Mapping[str, str], *, reloads: bool = True) -> bytes:
        """Return a page; each value is escaped.

        Arguments:
            values: a text for each of ``PLACEHOLDERS``.
            reloads: whether a browser without scripts loads the page again.
        """
        polling = f"{_REFRESH_HTML if reloads else ''}{_SCRIPT_HTML}"
        pieces = list(self._pieces)
        for at in range(1, len(pieces), 2):
            name = pieces[at]
            pieces[at] = polling if name == POLLING else escape(values[name])
        return "".join(pieces).encode()


class _Checker(HTMLParser):
    """Finds the inline scripts and styles of a template, and parts that its policy would block.

    Attributes:
        found: the contents of the elements, by their names.
    """

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.found: dict[str, list[str]] = {name: [] for name in _INLINE}
        self._inside = ""
        self._text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Check the attributes of an element, and record that it begins."""
        for name, value in attrs:
            external = name in _DATA_ONLY or (tag == "link" and name == "href")
            if external and not (value or "").lower().startswith("data:"):
                self._fail(f"<{tag} {name}> must be a data: URL, since the page is self-contained")
            if name == "style" or name.startswith("on"):
                self._fail(f"<{tag} {name}> does not work; use a <{_INLINE[name == 'style']}>")
        if tag in _INLINE:
            self._inside = tag

    def handle_data(self, data: str) -> None:
        """Record the text of an inline element."""
        if self._inside:
            self._text.append(data)

    def handle_endtag(self, tag: str) -> None:
        """Check and record the content of an inline element."""
        if tag != self._inside:
            return
        text = "".join(self._text)
        if _PLACEHOLDER.search(text):
            self._fail(f"a <{tag}> must not have a placeholder: its hash is fixed")
        self.found[tag].append(text)
        self._inside = ""
        self._text = []

    def _fail(self, problem: str) -> None:
        raise ValueError(f"line {self.getpos()[0]}: {problem}")


def _hash(text: str) -> str:
    """Return the source expression of an inline element (CSP Level 3, section 2.3.1)."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


#: The page of a revision that names no template.
DEFAULT: Final = Template((Path(__file__).parent / "waiting_page.html").read_text("utf-8"))


# Builds the waiting page, and the responses to the requests by which it follows the start. Pure.
#
# Nothing of a request is in the page. Its values come from the objects of the cluster, and each
# is escaped. Knative has no counterpart.

#: Seconds of Retry-After: the page asks as often.
RETRY_AFTER: Final = 2
#: From so many seconds on, a forecast is given in minutes.
_MINUTES_FROM: Final = 90


class StartPhase(Enum):
    """How far the start of a revision is.

    ASKED: no pod is listed yet. LISTED: Kubernetes lists one, and no probe of it has ended. PROBED:
    a probe of one has ended, and none is usable yet. BUSY: each usable pod is busy. FAILED: the
    time-out of a request has passed since the first one waited.
    """

    ASKED = "asked"
    LISTED = "listed"
    PROBED = "probed"
    BUSY = "busy"
    FAILED = "failed"


#: For each phase the value of the progress bar, of 4, and a sentence.
_SHOWN: Final[dict[StartPhase, tuple[int, str]]] = {
    StartPhase.ASKED: (1, "A new instance is requested."),
    StartPhase.LISTED: (2, "An instance is starting."),
    StartPhase.PROBED: (3, "An instance runs. It does not respond yet."),
    StartPhase.BUSY: (3, "All instances are busy at the moment."),
    StartPhase.FAILED: (0, "It did not start in time ({}). Load this page again to retry."),
}
_LATE: Final = "longer than usual"
_NO_STORE: Final = b"\r\nCache-Control: no-store"
_HTML: Final = (
    b"\r\nContent-Type: text/html; charset=utf-8\r\nX-Content-Type-Options: nosniff"
    b"\r\nReferrer-Policy: same-origin" + _NO_STORE
)


@dataclass(frozen=True, slots=True)
class Start:
    """The start of a revision, as a page shows it.

    Attributes:
        name: of the Service, or of the revision; namespace: of both.
        phase: see StartPhase.
        forecast: the expected wait, whole seconds; None if unknown.
        is_late: whether it takes longer than usual.
        reason: why requests wait; detail: an explanation for people.
    """

    name: str
    namespace: str
    phase: StartPhase
    forecast: int | None
    reason: Reason
    detail: str
    is_late: bool = False


def page(template: Template, start: Start) -> OwnResponse:
    """Return the response with the page; at the end it does not load itself again."""
    step, message = _SHOWN[start.phase]
    values = {
        "name": start.name,
        "namespace": start.namespace,
        "phase": start.phase.value,
        "step": str(step),
        "message": message.replace("{}", start.reason.value),
        "forecast": _LATE if start.is_late else _forecast(start.forecast),
        "reason": start.reason.value,
    }
    policy = b"\r\nContent-Security-Policy: " + template.policy.encode()
    body = template.render(values, reloads=start.phase is not StartPhase.FAILED)
    return _response(start, _HTML + policy, body)


def peek(start: Start | None) -> OwnResponse:
    """Return the response to a page that asks whether it should reload.

    Arguments:
        start: the start of the revision; None if a request would be served now.
    """
    if start is None:
        return OwnResponse(200, _NO_STORE)
    fields = _NO_STORE + b"\r\nActivator-Phase: " + start.phase.value.encode()
    if start.forecast is not None:
        fields += b"\r\nActivator-Forecast: %d" % start.forecast
    elif start.is_late:
        fields += b"\r\nActivator-Forecast: late"
    return _response(start, fields)


def _response(start: Start, fields: bytes, body: bytes = b"") -> OwnResponse:
    failed = start.phase is StartPhase.FAILED
    status, again = (504, None) if failed else (503, RETRY_AFTER)
    return OwnResponse(status, fields, body, start.reason, start.detail, again)


def whole_seconds(expected: float | None) -> int | None:
    """Return a forecast in whole seconds, at least 1; None if it is unknown."""
    return None if expected is None else max(ceil(expected), 1)


def _forecast(seconds: int | None) -> str:
    if seconds is None:
        return "not known yet"
    return f"about {seconds} s" if seconds < _MINUTES_FROM else f"about {ceil(seconds / 60)} min"
