"""Compiles the template of the request log to one function, which is called for each line.

The language is the part of Go's text/template that log lines use: fields and methods, ``if`` with
``else``, pipelines, parentheses, trim markers, and the functions of ``_FUNCTIONS``. The
template and its types are fixed, so a mistake is an error with its place before any line is made.
In Go most mistakes fail line by line. Source: Go's text/template.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from math import inf, isfinite
from typing import Final, NamedTuple, NoReturn, TypeVar

from activator.telemetry.go_values import (
    ExecutionError,
    GoStruct,
    Member,
    TemplateError,
    compared,
    formatted,
    indexed,
    is_printable,
    js,
    show,
    truth,
    type_name,
)

T = TypeVar("T", bound=GoStruct)

#: Limit of the cost of one line. A character that is made costs 1, a statement or an
#: argument STEP. No request passes while a line is made; the slowest line within the limit takes
#: about 20 ms. Few log readers accept lines of more than 16 KiB.
MOST_WORK: Final = 128 << 10
STEP: Final = 8
#: Most levels of nesting. Deeper nesting would exhaust the stack, and no log line needs it.
_DEEPEST: Final = 50
#: The smallest and the largest number of arguments of each function; None for any number.
_FUNCTIONS: Final[dict[str, tuple[int, int | None]]] = {
    "and": (1, None),
    "eq": (2, None),
    "ge": (2, 2),
    "gt": (2, 2),
    "index": (1, None),
    "js": (1, 1),
    "le": (2, 2),
    "lt": (2, 2),
    "ne": (2, 2),
    "not": (1, 1),
    "or": (1, None),
    "printf": (1, None),
}
_NOT_OFFERED: Final = frozenset(
    {"block", "break", "continue", "define", "range", "template", "with"}
)


def compile_template(template: str, root: type[T]) -> Callable[[T], str]:
    """Return what makes a line of a value.

    Arguments:
        template: the text.
        root: the type of ``.``; its ``members`` are what the template may name.

    Returns:
        A function that raises ``ExecutionError`` where a value does not fit.

    Raises:
        TemplateError: the template cannot be used; it says where and why.
    """
    execute = _Compiler(template, root).template()

    def render(value: T) -> str:
        line = _Line(value)
        execute(line)
        return "".join(line.out)

    return render


class _Line:
    """The state of one line while it is made."""

    __slots__ = ("left", "out", "root")

    def __init__(self, root: GoStruct) -> None:
        self.left = MOST_WORK
        self.root = root
        self.out: list[str] = []

    def spend(self, work: int) -> None:
        """Count work; raise ``ExecutionError`` if a line exceeds its limit."""
        self.left -= work
        if self.left < 0:
            raise ExecutionError(
                f"a line may read and make {MOST_WORK} characters; this needs more"
            )

    def write(self, text: str) -> None:
        """Append to the line; raises as ``spend``."""
        self.spend(len(text))
        self.out.append(text)


_Evaluate = Callable[[_Line], object]
_Execute = Callable[[_Line], None]


class _Expression(NamedTuple):
    """A compiled operand or pipeline.

    Attributes:
        evaluate: returns the value; raises ``ExecutionError``.
        type: the type of the value; ``object`` if only a line shows it.
        constant: the value if the template contains it; else None.
    """

    evaluate: _Evaluate
    type: type
    constant: object = None


# -- tokens ---------------------------------------------------------------------------------------


class _Token(NamedTuple):
    """One token: its kind, its text, where it begins, and whether a blank precedes it."""

    kind: str
    text: str
    at: int
    spaced: bool


_BLANKS: Final = " \t\r\n"
_LEFT: Final = re.compile(r"\{\{(-(?=[ \t\r\n]))?")
#: The first of these that matches; a dot before a digit begins a number.
_TOKEN: Final = re.compile(
    r"""(?P<blank>[ \t\r\n]+) | (?P<right>(?:(?<=[ \t\r\n])-)?\}\})
    | (?P<number>[+-]?\.?[0-9](?:[0-9A-Za-z_.]|(?<=[eE])[+-])*)
    | (?P<field>\.[^\W\d]\w*) | (?P<dot>\.) | (?P<variable>\$\w*) | (?P<word>[^\W\d]\w*)
    | (?P<string>"(?:[^"\\\n]|\\.)*") | (?P<raw>`[^`]*`) | (?P<mark>:=|[=|(),])""",
    re.VERBOSE,
)
_CONSTANTS: Final = {"true": True, "false": False}
_UNTERMINATED: Final = {'"': "string", "`": "raw string"}
_INTEGER: Final = re.compile(r"[+-]?(?:0|[1-9][0-9]{0,17})")
_FLOAT: Final = re.compile(r"[+-]?(?=[0-9]*[.eE])(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_STRING: Final = re.compile(r'"(?:[^"\\]|\\[abfnrtv\\"]|\\u(?![dD][89a-fA-F])[0-9a-fA-F]{4})*"')
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
_ESCAPES: Final = dict(zip('abfnrtv\\"', '\a\b\f\n\r\t\v\\"', strict=True))


def _place(template: str, at: int) -> str:
    """Return the line and the column of a position, both from 1."""
    return f"{template.count(chr(10), 0, at) + 1}:{at - template.rfind(chr(10), 0, at)}"


def _error(template: str, at: int, reason: str) -> TemplateError:
    return TemplateError(f"{_place(template, at)}: {reason}")


def _tokens(template: str) -> Iterator[_Token]:
    """Yield the tokens of a template: text between actions, and the words within actions.

    Blanks are no tokens: ``f .X`` are two operands and ``f.X`` is none. The last token is "end".
    """
    position, trim = 0, False
    while position < len(template):
        left = _LEFT.search(template, position)
        text = template[position : left.start() if left else len(template)]
        text = text.lstrip(_BLANKS) if trim else text
        text = text.rstrip(_BLANKS) if left and left[1] else text
        if text:
            yield _Token("text", text, position, False)
        if left is None:
            break
        position, trim = yield from _action(template, left)
    yield _Token("end", "end of the template", len(template), False)


def _action(template: str, left: re.Match[str]) -> Generator[_Token, None, tuple[int, bool]]:
    """Yield the tokens of one action; return where it ends and whether blanks are trimmed."""
    position, spaced = left.end(), False
    yield _Token("left", "{{", left.start(), False)
    while position < len(template):
        found = _TOKEN.match(template, position)
        if found is None:
            character = template[position]
            name = _UNTERMINATED.get(character)
            reason = f"this {name} does not end" if name else f"unexpected {character!r}"
            raise _error(template, position, reason)
        kind = str(found.lastgroup)
        if kind == "right":
            yield _Token(kind, "}}", position, spaced)
            return found.end(), found[0].startswith("-")
        if kind != "blank":
            yield _Token(kind, found[0], position, spaced)
        position, spaced = found.end(), kind == "blank"
    raise _error(template, left.start(), "this action is not closed by }}")


def _literal(token: _Token) -> str | int | float | None:
    """Return the value of a literal; None if it is none."""
    text = token.text
    if token.kind == "raw":
        return text[1:-1].replace("\r", "")
    if token.kind == "string":
        return _ESCAPE.sub(_unescaped, text[1:-1]) if _STRING.fullmatch(text) else None
    if _INTEGER.fullmatch(text):
        return int(text)
    number = float(text) if _FLOAT.fullmatch(text) else inf
    return number if isfinite(number) else None


def _unescaped(found: re.Match[str]) -> str:
    return chr(int(found[1], 16)) if found[1] else _ESCAPES[found[2]]


# -- statements and pipelines ---------------------------------------------------------------------


class _Compiler:
    """Reads the tokens of a template once, and compiles each part as it ends."""

    def __init__(self, template: str, root: type[GoStruct]) -> None:
        self._template = template
        self._dot = _Expression(lambda line: line.root, root)
        self._tokens = list(_tokens(template))
        self._next = 0
        self._depth = 0

    def template(self) -> _Execute:
        found = self._block()
        if self._peek().kind != "end":
            self._take()
            self._unexpected(self._take())
        return found

    def _block(self) -> _Execute:
        """Compile all statements up to an else, an end, or the end of the template."""
        self._enter()
        found: list[_Execute] = []
        while self._peek().kind != "end" and self._word_of_action() not in ("else", "end"):
            found.append(self._statement())
        self._depth -= 1
        if len(found) == 1:
            return found[0]
        steps, work = tuple(found), STEP * len(found)

        def execute(line: _Line) -> None:
            line.spend(work)
            for step in steps:
                step(line)

        return execute

    def _statement(self) -> _Execute:
        token, word = self._take(), self._peek()
        if token.kind == "text":
            text = token.text
            return lambda line: line.write(text)
        if word.kind == "word" and word.text in _NOT_OFFERED:
            raise self._error(word, f"{word.text} is not offered here")
        if word.kind == "word" and word.text == "if":
            return self._if(self._take())
        value = self._pipe("}}")
        if not is_printable(value.type):
            name = type_name(value.type)
            raise self._error(word, f"{name} cannot be printed; name one of its fields")
        evaluate = value.evaluate
        if value.type is str:
            return lambda line: line.write(evaluate(line))  # type: ignore[arg-type] # a str
        return lambda line: line.write(show(evaluate(line)))

    def _if(self, word: _Token) -> _Execute:
        condition = self._pipe("}}").evaluate
        body = self._block()
        otherwise: _Execute | None = None
        has_else = self._word_of_action() == "else"
        if has_else:
            self._take()
            self._take()
        if has_else and (self._peek().kind, self._peek().text) == ("word", "if"):
            self._enter()
            otherwise = self._if(self._take())  # which reads the end that both share
            self._depth -= 1
        else:
            if has_else:
                self._expect("}}")
                otherwise = self._block()
            if self._peek().kind == "end":
                raise self._error(word, "this if has no end")
            self._take()
            self._expect("end", f"the end of if in {_place(self._template, word.at)}")
            self._expect("}}")

        def execute(line: _Line) -> None:
            line.spend(STEP)
            if truth(condition(line)):
                body(line)
            elif otherwise is not None:
                otherwise(line)

        return execute

    def _pipe(self, end: str) -> _Expression:
        """Compile commands, where each gets the value of the previous one."""
        self._enter()
        value = self._command([])
        while self._peek().text == "|":
            self._take()
            value = self._command([value])
        self._expect(end)
        self._depth -= 1
        return value

    def _command(self, given: list[_Expression]) -> _Expression:
        first = self._peek()
        if _ends_command(first):
            raise self._error(first, "a value or a function is missing")

        def arguments() -> list[_Expression]:
            found: list[_Expression] = []
            while not _ends_command(self._peek()):
                if not self._peek().spaced:
                    self._unexpected(self._peek())
                found.append(self._operand(list))
            return found + given

        return self._operand(arguments)

    def _operand(self, arguments: Callable[[], list[_Expression]]) -> _Expression:
        """Compile an operand; ``arguments`` compiles the ones of a function or a method."""
        first = self._take()
        if first.kind == "word" and first.text not in _CONSTANTS:
            self._refuse_field_of(first)
            return self._call(first, arguments())
        is_field = first.kind == "field"
        self._next -= is_field  # it belongs to the dot
        value, called = self._dot if is_field else self._term(first), False
        while self._peek().kind == "field" and (is_field or not self._peek().spaced):
            field, is_field = self._take(), False
            called = self._peek().kind != "field" or self._peek().spaced
            value = self._member(value, field, arguments() if called else [])
        at = self._peek()
        if not called and arguments():
            at = first if _ends_command(at) else at
            raise self._error(at, "an argument for what is no function")
        return value

    def _term(self, token: _Token) -> _Expression:
        if token.text == "(":
            return self._pipe(")")
        if token.kind == "variable" and token.text != "$":
            raise self._error(token, f"there is no variable {token.text}")
        if token.kind == "variable":
            return self._dot
        self._refuse_field_of(token)
        if token.kind == "dot":
            return self._dot
        if token.kind not in ("word", "number", "string", "raw"):
            self._unexpected(token)
        constant = _CONSTANTS[token.text] if token.kind == "word" else _literal(token)
        if constant is None:
            raise self._error(token, f"{token.text} is no {token.kind}")
        return _Expression(lambda line: constant, type(constant), constant)

    def _member(self, of: _Expression, token: _Token, arguments: list[_Expression]) -> _Expression:
        """Compile a field or method of a value."""
        name = token.text[1:]
        member: Member | None = getattr(of.type, "members", {}).get(name)
        if member is None:
            raise self._error(token, f"{type_name(of.type)} has no field {name} here")
        if len(arguments) != len(member.parameters):
            wanted = len(member.parameters)
            raise self._error(token, f"{name} takes {wanted} arguments, not {len(arguments)}")
        for kind, argument in zip(member.parameters, arguments, strict=True):
            if argument.type is not kind:
                wrong = type_name(argument.type)
                raise self._error(token, f"{name} takes a {type_name(kind)}, not {wrong}")
        get, value = member.get, of.evaluate
        if not arguments:
            return _Expression(lambda line: get(value(line)), member.returns)
        evaluators = tuple(each.evaluate for each in arguments)
        return _Expression(
            lambda line: get(value(line), *[each(line) for each in evaluators]), member.returns
        )

    def _call(self, token: _Token, arguments: list[_Expression]) -> _Expression:
        """Compile the call of a function."""
        name = token.text
        if name in _NOT_OFFERED | {"if", "else", "end"}:
            self._unexpected(token)
        if name not in _FUNCTIONS:
            offered = ", ".join(sorted(_FUNCTIONS))
            raise self._error(token, f"there is no function {name} here; there are {offered}")
        least, most = _FUNCTIONS[name]
        if not least <= len(arguments) <= (most or len(arguments)):
            raise self._error(token, f"{name} cannot be given {len(arguments)} arguments")
        if name in ("and", "or"):
            return _and_or(name, arguments)
        for each in arguments:
            if issubclass(each.type, GoStruct) and not each.type.stringer:
                wrong = type_name(each.type)
                raise self._error(token, f"{name} cannot be given a whole {wrong}")
        try:
            function, returns = _function(name, arguments)
        except ValueError as error:
            raise self._error(token, str(error)) from None
        return _Expression(_charged(function, arguments), returns)

    # -- tokens ---------------------------------------------------------------------------------

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        self._next += token.kind != "end"
        return token

    def _expect(self, text: str, name: str = "") -> None:
        token = self._take()
        if token.text != text:
            self._unexpected(token, f"; {name or text} is missing")

    def _word_of_action(self) -> str:
        """Return the first word of the next action."""
        if self._peek().kind != "left":
            return ""
        token = self._tokens[self._next + 1]
        return token.text if token.kind == "word" else ""

    def _enter(self) -> None:
        """Begin a part of the template; the caller ends it."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._error(self._peek(), "nested too deeply")

    def _refuse_field_of(self, token: _Token) -> None:
        field = self._peek()
        if field.kind == "field" and not field.spaced:
            raise self._error(field, f"{token.text} has no fields")

    def _unexpected(self, token: _Token, more: str = "") -> NoReturn:
        raise self._error(token, f"unexpected {token.text}{more}")

    def _error(self, token: _Token, reason: str) -> TemplateError:
        return _error(self._template, token.at, reason)


def _ends_command(token: _Token) -> bool:
    return token.kind in ("right", "end") or token.text in (")", "|")


# -- functions ------------------------------------------------------------------------------------


def _function(name: str, arguments: list[_Expression]) -> tuple[Callable[..., object], type]:
    """Return a function for values of these types, and the type of its result.

    Raises:
        ValueError: the values do not fit.
    """
    kinds = [each.type for each in arguments]
    if name == "js":
        return js, str
    if name == "not":
        return lambda value: not truth(value), bool
    if name == "index":
        return indexed(kinds)
    if name != "printf":
        return compared(name, kinds), bool
    text = arguments[0].constant
    if not isinstance(text, str):
        raise ValueError(f"printf needs a constant format, not a {type_name(kinds[0])}")
    form = formatted(text, kinds[1:])
    return lambda _, *values: form(*values), str


def _charged(function: Callable[..., object], arguments: list[_Expression]) -> _Evaluate:
    """Return a call of a function that counts its arguments and the characters that it makes."""
    evaluators = tuple(each.evaluate for each in arguments)
    work = STEP * (1 + len(evaluators))

    def evaluate(line: _Line) -> object:
        found = function(*[each(line) for each in evaluators])
        line.spend(work + len(found) if isinstance(found, str) else work)
        return found

    return evaluate


def _and_or(name: str, arguments: list[_Expression]) -> _Expression:
    """Return a call of ``and`` or ``or``, which evaluates no more arguments than it needs."""
    evaluators = tuple(each.evaluate for each in arguments)
    stops_at = name == "or"

    def evaluate(line: _Line) -> object:
        found: object = None
        for each in evaluators:
            line.spend(STEP)
            found = each(line)
            if truth(found) is stops_at:
                break
        return found

    kinds = {each.type for each in arguments}
    return _Expression(evaluate, kinds.pop() if len(kinds) == 1 else object)
