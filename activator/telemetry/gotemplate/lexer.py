"""Splits a template into tokens: text between actions, and the words within actions.

The module knows no grammar. Blanks are no tokens, but each token has a mark for a blank before it:
``f .X`` are two operands and ``f.X`` is none. Source: Go's text/template, "Text and spaces".
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Generator, Iterator
from enum import Enum
from typing import Final, NamedTuple

from activator.telemetry.gotemplate.errors import At, TemplateError


class Kind(Enum):
    """The kinds of tokens."""

    TEXT = "text"
    LEFT = "{{"
    RIGHT = "}}"
    WORD = "word"
    FIELD = "field"
    VARIABLE = "variable"
    DOT = "."
    STRING = "string"
    RAW_STRING = "raw string"
    CHARACTER = "character constant"
    NUMBER = "number"
    DECLARE = ":="
    ASSIGN = "="
    PIPE = "|"
    OPEN = "("
    CLOSE = ")"
    COMMA = ","
    END = "end of the template"


class Token(NamedTuple):
    """One token; ``text`` is its spelling, ``spaced`` whether a blank precedes it."""

    kind: Kind
    text: str
    at: At
    spaced: bool


_BLANKS: Final = " \t\r\n"
_LEFT: Final = re.compile(r"\{\{(-(?=[ \t\r\n]))?")
_RIGHT: Final = re.compile(r"(?:(?<=[ \t\r\n])-)?\}\}")
_COMMENT: Final = re.compile(r"[ \t\r\n]*/\*.*?\*/(?:([ \t\r\n]-)?\}\}|())", re.DOTALL)
_BLANK: Final = re.compile(r"[ \t\r\n]+")
# The lexer tries them in this order; a dot before a digit begins a number.
_TOKENS: Final = (
    (Kind.NUMBER, re.compile(r"[+-]?(?:\.?[0-9])(?:[0-9A-Za-z_.]|(?<=[eEpP])[+-])*")),
    (Kind.FIELD, re.compile(r"\.[^\W\d]\w*")),
    (Kind.DOT, re.compile(r"\.")),
    (Kind.VARIABLE, re.compile(r"\$\w*")),
    (Kind.WORD, re.compile(r"[^\W\d]\w*")),
    (Kind.STRING, re.compile(r'"(?:[^"\\\n]|\\.)*"')),
    (Kind.RAW_STRING, re.compile(r"`[^`]*`")),
    (Kind.CHARACTER, re.compile(r"'(?:[^'\\\n]|\\.)+'")),
    (Kind.DECLARE, re.compile(":=")),
    (Kind.ASSIGN, re.compile("=")),
    (Kind.PIPE, re.compile(r"\|")),
    (Kind.OPEN, re.compile(r"\(")),
    (Kind.CLOSE, re.compile(r"\)")),
    (Kind.COMMA, re.compile(",")),
)
_UNTERMINATED: Final = {'"': "string", "`": "raw string", "'": "character constant"}
#: Kinds that need a separator before the next word; ``.X"y"`` has none.
_WORDS: Final = frozenset({Kind.NUMBER, Kind.FIELD, Kind.VARIABLE, Kind.WORD, Kind.DOT})
_TERMINATORS: Final = frozenset(_BLANKS + ".,|:=)(}")


class _Lexer:
    def __init__(self, template: str) -> None:
        self._text = template
        self._starts = [0, *(found.end() for found in re.finditer("\n", template))]

    def at(self, position: int) -> At:
        line = bisect_right(self._starts, position)
        return At(line, position - self._starts[line - 1] + 1)

    def tokens(self) -> Iterator[Token]:
        position, trim = 0, False
        while position < len(self._text):
            left = _LEFT.search(self._text, position)
            end = left.start() if left else len(self._text)
            text = self._text[position:end]
            text = text.lstrip(_BLANKS) if trim else text
            text = text.rstrip(_BLANKS) if left and left[1] else text
            if text:
                yield Token(Kind.TEXT, text, self.at(position), False)
            if left is None:
                break
            position, trim = yield from self._action(left)
        yield Token(Kind.END, "", self.at(len(self._text)), False)

    def _action(self, left: re.Match[str]) -> Generator[Token, None, tuple[int, bool]]:
        """Yield the tokens of one action; return where it ends and whether blanks are trimmed."""
        text, start, position = self._text, left.start(), left.end()
        # Blanks may precede a comment only after a trim marker.
        if text.startswith("/*", _after_blanks(text, position) if left[1] else position):
            return self._comment(position)
        yield Token(Kind.LEFT, "{{", self.at(start), False)
        while position < len(text):
            begin = position
            position = _after_blanks(text, position)
            if right := _RIGHT.match(text, position):
                yield Token(Kind.RIGHT, "}}", self.at(position), position > begin)
                return right.end(), right[0].startswith("-")
            if position == len(text):
                break
            token = self._token(position, position > begin)
            yield token
            position += len(token.text)
        raise TemplateError(self.at(start), "this action is not closed by }}")

    def _comment(self, position: int) -> tuple[int, bool]:
        found = _COMMENT.match(self._text, position)
        if found is None:
            raise TemplateError(self.at(position), "this comment is not closed by */")
        if found[2] is not None:
            raise TemplateError(self.at(position), "a comment must be closed by */}} at once")
        return found.end(), found[1] is not None

    def _token(self, position: int, spaced: bool) -> Token:
        at = self.at(position)
        for kind, pattern in _TOKENS:
            if found := pattern.match(self._text, position):
                self._check_end(kind, found)
                return Token(kind, found[0], at, spaced)
        character = self._text[position]
        if character in _UNTERMINATED:
            raise TemplateError(at, f"this {_UNTERMINATED[character]} does not end")
        raise TemplateError(at, f"unexpected {character!r}")

    def _check_end(self, kind: Kind, found: re.Match[str]) -> None:
        following = self._text[found.end() : found.end() + 1]
        if kind in _WORDS and following and following not in _TERMINATORS:
            raise TemplateError(self.at(found.end()), f"unexpected {following!r}")


def _after_blanks(text: str, position: int) -> int:
    blanks = _BLANK.match(text, position)
    return blanks.end() if blanks else position


def tokens(template: str) -> Iterator[Token]:
    """Yield the tokens of a template; the last one has kind END.

    Raises:
        TemplateError: something is no token.
    """
    return _Lexer(template).tokens()
