"""What ``activator status`` and ``activator explain`` ask for, and how they go about it.

Joins client, pages and screen. Must not import any part of the server.
"""

from __future__ import annotations

from typing import Protocol, TextIO
from urllib.parse import quote

from activator.admin import explain, status
from activator.admin.client import ACTIVATOR, REVISIONS, Admin, NotKnown, unexpected
from activator.admin.reading import Node, UnexpectedAnswer, parse
from activator.admin.screen import Page, show
from activator.admin.watching import Seen, screen, watch


class Question(Protocol):
    """What somebody wants to know.

    Attributes:
        path: what the admin side is asked for.
    """

    path: str

    def page(self, answer: Node, admin: Admin, for_terminal: bool) -> Page:
        """Return what there is to show; raises ValueError where the answer is none of ours.

        Arguments:
            admin: who answered, for what has to be asked besides.
        """

    def warnings(self, answer: Node) -> list[str]:
        """Return what there is to say besides, a line each."""

    def not_known(self, admin: Admin) -> Exception:
        """Return what to raise if the admin side does not know it."""


class Status:
    """All revisions, or those of one namespace."""

    def __init__(self, namespace: str | None) -> None:
        self.path = REVISIONS
        if namespace is not None:
            self.path += f"?namespace={quote(namespace, safe='')}"

    def page(self, answer: Node, admin: Admin, for_terminal: bool) -> Page:
        """See Question."""
        return status.page(status.read_rows(answer), for_terminal)

    def warnings(self, answer: Node) -> list[str]:
        """See Question."""
        return status.warnings(answer)

    def not_known(self, admin: Admin) -> Exception:
        """See Question. A list is known to every activator."""
        return UnexpectedAnswer(unexpected(admin.url + self.path, "it has no such path"))


class Explain:
    """One revision."""

    def __init__(self, namespace: str, name: str) -> None:
        self._namespace, self._name = namespace, name
        self.path = f"{REVISIONS}/{quote(namespace, safe='')}/{quote(name, safe='')}"

    def page(self, answer: Node, admin: Admin, for_terminal: bool) -> Page:
        """See Question."""
        try:
            activator = parse(admin.get(ACTIVATOR))
        except (NotKnown, UnexpectedAnswer, ValueError):  # one that is older than this question
            return explain.page(answer)
        return explain.page(answer, activator)

    def warnings(self, answer: Node) -> list[str]:
        """See Question."""
        return []

    def not_known(self, admin: Admin) -> Exception:
        """See Question; names what may have been meant."""
        names = explain.near(_read(admin, REVISIONS, admin.get()), self._namespace, self._name)
        meant = f" Did you mean {' or '.join(names)}?" if names else ""
        return NotKnown(
            f"the activator knows no revision {self._namespace}/{self._name}.{meant}\n"
            "All that it knows: activator status"
        )


def run(url: str, question: Question, as_json: bool, again: bool, out: TextIO) -> list[str]:
    """Ask and show the answer; return what there is to say besides.

    Arguments:
        url: of the admin side.
        as_json: show the answer as it came.
        again: go on until somebody interrupts.

    Raises:
        NoAnswer, NotKnown, UnexpectedAnswer: see Admin.get; each says what to do.
    """
    with Admin(url) as admin:
        if again:
            with screen(out, as_json) as on:
                watch(lambda: _look(admin, question, out), on)
            return []
        seen = _look(admin, question, out)
        if as_json:
            out.write(seen.text + "\n")
        else:
            show(seen.page, out)
        return [] if as_json else question.warnings(parse(seen.text))


def _look(admin: Admin, question: Question, out: TextIO) -> Seen:
    try:
        text = admin.get(question.path)
    except NotKnown:
        raise question.not_known(admin) from None
    answer = _read(admin, question.path, text)
    try:
        return Seen(text, question.page(answer, admin, out.isatty()))
    except ValueError as error:
        raise UnexpectedAnswer(unexpected(admin.url + question.path, str(error))) from None


def _read(admin: Admin, path: str, text: str) -> Node:
    try:
        return parse(text)
    except ValueError as error:
        raise UnexpectedAnswer(unexpected(admin.url + path, str(error))) from None
