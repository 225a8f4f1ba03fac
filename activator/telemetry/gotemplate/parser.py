"""Parses tokens to nodes; knows the grammar and its unsupported words.

The module knows neither functions nor fields. Source: Go's text/template, "Actions" and
"Pipelines".
"""

from __future__ import annotations

from typing import Final, NoReturn

from activator.telemetry.gotemplate import literals
from activator.telemetry.gotemplate.errors import At, TemplateError
from activator.telemetry.gotemplate.lexer import Kind, Token, tokens
from activator.telemetry.gotemplate.nodes import (
    Action,
    Branch,
    Constant,
    Dot,
    Field,
    Function,
    Operand,
    Pipe,
    Statement,
    Text,
    Variable,
)

_BRANCHES: Final = frozenset({"if", "with", "range"})
_NOT_OFFERED: Final = frozenset({"block", "break", "continue", "define", "template"})
_CONSTANTS: Final = {"true": True, "false": False, "nil": None}
#: Most levels of nesting. Deeper nesting would exhaust the stack, and no log line needs it.
_DEEPEST: Final = 50


def parse(template: str) -> tuple[Statement, ...]:
    """Return the statements of a template.

    Raises:
        TemplateError: it is none, or uses what is not offered.
    """
    return _Parser(template).template()


class _Parser:
    def __init__(self, template: str) -> None:
        self._tokens = list(tokens(template))
        self._next = 0
        self._depth = 0

    def _peek(self) -> Token:
        return self._tokens[self._next]

    def _take(self) -> Token:
        token = self._tokens[self._next]
        self._next += token.kind is not Kind.END
        return token

    def _expect(self, kind: Kind) -> Token:
        token = self._take()
        if token.kind is not kind:
            _unexpected(token, f"; {kind.value} is missing")
        return token

    def _word_of_action(self) -> str:
        """Return the first word of the next action."""
        if self._peek().kind is not Kind.LEFT:
            return ""
        token = self._tokens[self._next + 1]
        return token.text if token.kind is Kind.WORD else ""

    def template(self) -> tuple[Statement, ...]:
        found = self._statements()
        if self._peek().kind is not Kind.END:
            self._take()
            _unexpected(self._take())
        return found

    def _statements(self) -> tuple[Statement, ...]:
        """Return all statements up to an else, an end, or the end of the template."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise TemplateError(self._peek().at, "nested too deeply")
        found: list[Statement] = []
        while self._peek().kind is not Kind.END and self._word_of_action() not in ("else", "end"):
            found.append(self._statement())
        self._depth -= 1
        return tuple(found)

    def _statement(self) -> Statement:
        token = self._take()
        if token.kind is Kind.TEXT:
            return Text(token.text)
        word = self._peek()
        if word.kind is Kind.WORD and word.text in _NOT_OFFERED:
            raise TemplateError(word.at, f"{word.text} is not offered here")
        if word.kind is Kind.WORD and word.text in _BRANCHES:
            return self._branch(self._take())
        pipe = self._pipe(Kind.RIGHT)
        return Action(pipe)

    def _branch(self, word: Token) -> Branch:
        pipe = self._pipe(Kind.RIGHT, in_range=word.text == "range")
        body = self._statements()
        otherwise: tuple[Statement, ...] = ()
        if self._word_of_action() == "else":
            self._take()
            self._take()
            if self._peek().kind is Kind.WORD and self._peek().text in ("if", "with"):
                return Branch(word.text, pipe, body, (self._else_branch(word),))
            self._expect(Kind.RIGHT)
            otherwise = self._statements()
        self._end(word)
        return Branch(word.text, pipe, body, otherwise)

    def _else_branch(self, word: Token) -> Branch:
        """Return the branch of ``else if`` or ``else with``, which shares its end."""
        again = self._take()
        if again.text != word.text:
            _unexpected(again, f" after else of {word.text}")
        self._depth += 1
        found = self._branch(again)
        self._depth -= 1
        return found

    def _end(self, word: Token) -> None:
        if self._peek().kind is Kind.END:
            raise TemplateError(word.at, f"this {word.text} has no end")
        self._take()
        token = self._take()
        if token.text != "end":
            _unexpected(token, f"; the end of {word.text} in {word.at} is missing")
        self._expect(Kind.RIGHT)

    def _pipe(self, end: Kind, *, in_range: bool = False) -> Pipe:
        self._depth += 1
        start = self._peek()
        if self._depth > _DEEPEST:
            raise TemplateError(start.at, "nested too deeply")
        names, declares = self._declarations(in_range)
        commands = [self._command(end)]
        while self._peek().kind is Kind.PIPE:
            self._take()
            at = self._peek().at
            commands.append(self._command(end))
            if isinstance(commands[-1][0], Constant | Dot):
                raise TemplateError(at, "a value cannot be given to a value that is no function")
        self._expect(end)
        self._depth -= 1
        return Pipe(start.at, tuple(commands), names, declares)

    def _declarations(self, in_range: bool) -> tuple[tuple[str, ...], bool]:
        names: list[str] = []
        begin = self._next
        while self._peek().kind is Kind.VARIABLE:
            names.append(self._take().text)
            token = self._take()
            if token.kind in (Kind.DECLARE, Kind.ASSIGN):
                return tuple(names), token.kind is Kind.DECLARE
            if token.kind is not Kind.COMMA:
                break
            if not in_range or len(names) > 1:
                raise TemplateError(token.at, "too many variables")
        # The variable was an operand.
        self._next = begin
        return (), False

    def _command(self, end: Kind) -> tuple[Operand, ...]:
        operands: list[Operand] = []
        while self._peek().kind not in (end, Kind.PIPE):
            token = self._peek()
            if operands and not token.spaced:
                _unexpected(token)
            operands.append(self._operand())
        if not operands:
            raise TemplateError(self._peek().at, "a value or a function is missing")
        return tuple(operands)

    def _operand(self) -> Operand:
        first = self._peek()
        operand = self._term()
        while self._peek().kind is Kind.FIELD and not self._peek().spaced:
            token = self._take()
            if isinstance(operand, Constant | Dot | Function):
                raise TemplateError(token.at, f"{first.text} has no fields")
            operand = Field(token.at, operand, token.text[1:])
        return operand

    def _term(self) -> Operand:
        token = self._take()
        at = token.at
        if token.kind is Kind.WORD:
            return _word(token)
        if token.kind is Kind.FIELD:
            return Field(at, Dot(at), token.text[1:])
        if token.kind is Kind.DOT:
            return Dot(at)
        if token.kind is Kind.VARIABLE:
            return Variable(at, token.text)
        if token.kind is Kind.OPEN:
            return self._pipe(Kind.CLOSE)
        if (read := literals.READERS.get(token.kind)) is None:
            _unexpected(token)
        try:
            return Constant(at, read(token.text))
        except ValueError:
            raise TemplateError(at, f"{token.text} is no {token.kind.value}") from None


def _word(token: Token) -> Operand:
    if token.text in _CONSTANTS:
        return Constant(token.at, _CONSTANTS[token.text])
    if token.text in _BRANCHES | _NOT_OFFERED | {"else", "end"}:
        _unexpected(token)
    return Function(token.at, token.text)


def _unexpected(token: Token, more: str = "") -> NoReturn:
    what = token.text if token.kind is not Kind.END else token.kind.value
    raise TemplateError(token.at, f"unexpected {what}{more}")


def position_of(operand: Operand) -> At:
    """Return the position of an operand."""
    return position_of(operand.of) if isinstance(operand, Field) else operand.at
