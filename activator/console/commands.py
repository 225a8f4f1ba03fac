"""Run ``activator status`` and ``activator explain``: request, page, output.

It joins client, pages and screen. Must not import any part of the server.
"""

from __future__ import annotations

from contextlib import suppress
from difflib import get_close_matches
from typing import Final, TextIO
from urllib.parse import quote

from activator.console import client, explain, explain_parts, status
from activator.console.screen import Page, Shown, screen, show, watch

#: The reasons of an object with a wrong value, and of one whose requests or port another one has.
_INVALID, _LOSES = "invalid", ("host-conflict", "port-conflict")


class Status:
    """The request and the page of ``activator status``: all revisions, or all of one namespace.

    Attributes:
        path: path of the request to the admin port.
        second_path: path of a second request; empty for none.
    """

    second_path = ""

    def __init__(self, namespace: str | None) -> None:
        self._namespace = namespace
        self.path = client.REVISIONS
        if namespace is not None:
            self.path += f"?namespace={quote(namespace, safe='')}"

    def page(self, response: client.Json, second: client.Json, for_terminal: bool) -> Page:
        """Return the page.

        Arguments:
            second: the second response; without fields if there is none.

        Raises:
            ValueError: the response is not from an activator.
        """
        return status.page(status.read_rows(response), for_terminal)

    def warnings(self, response: client.Json) -> list[str]:
        """Return warnings, a line each."""
        none = self._namespace is not None and not response.nodes("revisions")
        nothing = [f"no revision is known in the namespace {self._namespace!r}"] if none else []
        return nothing + status.warnings(response) + self._not_in_use(response)

    def _not_in_use(self, response: client.Json) -> list[str]:
        """Return why the table lacks an object, and which rules of others have another owner."""
        used = set(map(status.named, response.nodes("revisions")))
        lines = list[str]()
        with suppress(ValueError):  # the command still shows the table
            activator = response.part("activator")
            # The errors of a folder name wrong values already.
            told = _INVALID if activator.node("manifests") is not None else None
            for each in activator.nodes("objectWarnings", required=False):
                reason, names = each.text("reason", default=""), status.named(each)
                if each.text("kind") not in status.KINDS or self._namespace not in (None, names[1]):
                    continue
                if names not in used and reason != told:
                    lines.append(f"not in use: {explain.warning(each)}")
                elif reason in _LOSES:
                    lines.append(explain.warning(each))
        return lines

    def not_known(self, admin: client.Admin) -> Exception:
        """Return the exception for a response 404: each activator has the list."""
        return client.unexpected(admin.url + self.path, "it has no such path")


class Explain:
    """The requests and the page of ``activator explain``: one revision, as `Status` has them.

    Arguments:
        kind: of the revision or of its object; None for the first kind that has the name.
        scaler_url: the admin port of the scaler, which is queried about a Service; empty for none.
    """

    second_path = client.ACTIVATOR

    def __init__(
        self, namespace: str, name: str, kind: str | None = None, scaler_url: str = ""
    ) -> None:
        self._namespace, self._name = namespace, name
        self._kind, self._scaler_url = kind, scaler_url
        self.path = f"{client.REVISIONS}/{quote(namespace, safe='')}/{quote(name, safe='')}"
        if kind is not None:
            self.path += f"?kind={quote(status.KINDS.get(kind, kind), safe='')}"

    def page(self, response: client.Json, second: client.Json, for_terminal: bool) -> Page:
        """Return the page; that of a Service has what the scaler knows."""
        scaled = explain_parts.NOT_SCALED
        if self._scaler_url and status.is_service(response):
            scaled = explain_parts.ask(self._scaler_url, self._namespace, self._name, second)
        return explain.page(response, second, scaled)

    def warnings(self, response: client.Json) -> list[str]:
        """Return none: the page has all that is wrong."""
        return []

    def not_known(self, admin: client.Admin) -> Exception:
        """Return the exception for a response 404; the text has similar names."""
        try:
            revisions = _read(admin, client.REVISIONS, admin.get())
        except client.NotKnown:  # a metrics port, or a port for traffic
            return Status(None).not_known(admin)
        if refused := self._warnings(admin):
            return client.NotKnown(f"{refused}So the activator does not use it.")
        key = self._namespace, self._name
        named = map(status.named, revisions.nodes("revisions"))
        kinds = [kind for kind, *known in named if (*known,) == key]
        if self._kind and kinds:
            found = f"{'/'.join(key)} is of kind {' and '.join(kinds)}"
            return client.NotKnown(f"{found}, not {self._kind}: leave out --kind")
        similar = near(revisions, self._namespace, self._name)
        meant = f" Did you mean {' or '.join(similar)}?" if similar else ""
        return client.NotKnown(
            f"the activator knows no revision, Service or route object "
            f"{self._namespace}/{self._name}.{meant}\nactivator status lists all of them."
        )

    def _warnings(self, admin: client.Admin) -> str:
        """Return the warnings about an object of this name: it may be broken or refused."""
        activator = client.parse(_second_response(admin, self))
        lines = [
            f"{explain.warning(each)}\n"
            for each in activator.nodes("objectWarnings", required=False)
            if (each.text("namespace"), each.text("name")) == (self._namespace, self._name)
        ]
        return "".join(lines)


Question = Status | Explain


def run(url: str, question: Question, as_json: bool, again: bool, out: TextIO) -> list[str]:
    """Send the requests, write the page, and return warnings.

    Arguments:
        url: URL of the admin port.
        as_json: write the response unchanged.
        again: repeat until the user interrupts.

    Raises:
        NoResponse, NotKnown, UnexpectedResponse: see Admin.get; each text has the next steps.
    """
    with client.Admin(url) as admin:
        if again:
            with screen(out, as_json) as on:
                watch(lambda: _with_warnings(_look(admin, question, out), question), on)
            return []
        seen = _look(admin, question, out)
        if as_json:
            out.write(seen.text + "\n")
        else:
            show(seen.page, out)
        return [] if as_json else question.warnings(client.parse(seen.text))


def _look(admin: client.Admin, question: Question, out: TextIO) -> Shown:
    try:
        text = admin.get(question.path)
    except client.NotKnown:
        raise question.not_known(admin) from None
    response = _read(admin, question.path, text)
    second = _second_response(admin, question)
    try:
        return Shown(text, question.page(response, client.parse(second), out.isatty()), second)
    except ValueError as error:
        raise client.unexpected(admin.url + question.path, str(error)) from None


def _second_response(admin: client.Admin, question: Question) -> str:
    """Return the second response; an object without fields if an old activator has none."""
    if not question.second_path:
        return "{}"
    try:
        text = admin.get(question.second_path)
        client.parse(text)
    except (client.NotKnown, client.UnexpectedResponse, ValueError):
        return "{}"
    return text


def _with_warnings(seen: Shown, question: Question) -> Shown:
    """Return a page with its warnings: beside a repeated page they would get lost."""
    lines = tuple(question.warnings(client.parse(seen.text)))
    return seen._replace(page=(*seen.page, "\n".join(lines))) if lines else seen


def _read(admin: client.Admin, path: str, text: str) -> client.Json:
    try:
        return client.parse(text)
    except ValueError as error:
        raise client.unexpected(admin.url + path, str(error)) from None


#: Maximum of similar names for an unknown one.
OFFERED: Final = 5


def key(words: str, given: str | None = None) -> tuple[str, str]:
    """Return the namespace and the name; the default namespace is ``default``.

    Arguments:
        given: the namespace of the option, if it was given.

    Raises:
        ValueError: there are two slashes, an empty part, or two namespaces.
    """
    namespace, slash, name = words.rpartition("/")
    if not name or (slash and not namespace) or "/" in namespace:
        raise ValueError(f"expected NAMESPACE/REVISION or REVISION, got {words!r}")
    if given and namespace not in ("", given):
        raise ValueError(f"--namespace is {given!r}, and the revision is {words!r}")
    return namespace or given or "default", name


def near(response: client.Json, namespace: str, name: str) -> list[str]:
    """Return similar names, the most similar first.

    Arguments:
        response: response to ``GET /api/v1/revisions``.

    Raises:
        ValueError: the response does not follow the API; the text names the field.
    """
    known = [(one.text("namespace"), one.text("name")) for one in response.nodes("revisions")]
    elsewhere = [f"{ns}/{revision}" for ns, revision in known if revision == name]
    # The name of a Service stands for its newest revision.
    versions = [f"{ns}/{r}" for ns, r in known if ns == namespace and r.startswith(name)]
    # Compare names alone: a long namespace in common would make any two of them alike.
    close = get_close_matches(name, {revision for _, revision in known}, n=OFFERED)
    alike = [f"{ns}/{revision}" for each in close for ns, revision in known if revision == each]
    return list(dict.fromkeys((*elsewhere, *sorted(versions, reverse=True), *alike)))[:OFFERED]
