"""Compiles the nodes of a template to one function, which is called for each line.

The compiler rejects a missing field, an argument too many, or a comparison of two types that have
no order. Source: Go's text/template (exec.go), where each of these mistakes fails line by line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from activator.telemetry.gotemplate import nodes
from activator.telemetry.gotemplate.errors import At, ExecutionError, TemplateError
from activator.telemetry.gotemplate.functions import COMPARISONS, FUNCTIONS, Function
from activator.telemetry.gotemplate.parser import parse, position_of
from activator.telemetry.gotemplate.printf import check_format
from activator.telemetry.gotemplate.values import (
    MISSING,
    GoMap,
    GoStruct,
    Member,
    show,
    truth,
    type_name,
)

T = TypeVar("T", bound=GoStruct)

#: Limit of the cost of one line. A character that is read or made costs 1, a statement or an
#: argument _STEP. No request passes while a line is made; the slowest line within the limit takes
#: about 20 ms. Few log readers accept lines of more than 16 KiB.
MOST_WORK: Final = 128 << 10
_STEP: Final = 8


class Frame:
    """The state of one execution."""

    __slots__ = ("dot", "left", "out", "root", "variables")

    def __init__(self, root: object, variables: int) -> None:
        self.left = MOST_WORK
        self.root = root
        self.dot = root
        self.variables: list[object] = [None] * variables
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


Evaluate = Callable[[Frame], object]
Execute = Callable[[Frame], None]


class Expression(NamedTuple):
    """A compiled operand or pipeline.

    Attributes:
        evaluate: returns the value; raises ``ExecutionError``.
        type: the type of the value; ``object`` if only a line shows it.
        constant: whether the template contains the value itself.
    """

    evaluate: Evaluate
    type: type
    constant: bool = False


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
    compiler = _Compiler(root)
    execute = compiler.block(parse(template), root)
    variables = compiler.most_variables

    def render(value: T) -> str:
        frame = Frame(value, variables)
        execute(frame)
        return "".join(frame.out)

    return render


class _Compiler:
    """Attributes: most_variables: the largest number of variables in scope."""

    def __init__(self, root: type[GoStruct]) -> None:
        self._root = root
        self._scope: list[str] = []
        self.most_variables = 0

    # -- statements -----------------------------------------------------------------------------

    def block(self, statements: tuple[nodes.Statement, ...], dot: type) -> Execute:
        before = len(self._scope)
        steps = tuple(self._statement(statement, dot) for statement in statements)
        del self._scope[before:]
        if len(steps) == 1:
            return steps[0]

        work = _STEP * len(steps)

        def execute(frame: Frame) -> None:
            frame.spend(work)
            for step in steps:
                step(frame)

        return execute

    def _statement(self, statement: nodes.Statement, dot: type) -> Execute:
        if isinstance(statement, nodes.Text):
            text = statement.text
            return lambda frame: frame.write(text)
        if isinstance(statement, nodes.Action):
            return self._action(statement.pipe, dot)
        before = len(self._scope)
        branch = self._range if statement.word == "range" else self._if_or_with
        found = branch(statement, dot)
        del self._scope[before:]
        return found

    def _action(self, pipe: nodes.Pipe, dot: type) -> Execute:
        value = self._pipe(pipe, dot)
        evaluate = self._assigned(pipe, value)
        if pipe.names:
            return lambda frame: _ignore(evaluate(frame))
        if issubclass(value.type, GoStruct) and not _printable(value.type):
            raise TemplateError(
                pipe.at, f"{type_name(value.type)} cannot be printed; name one of its fields"
            )
        if value.type is str:
            return lambda frame: frame.write(evaluate(frame))  # type: ignore[arg-type] # a str
        return lambda frame: frame.write(show(evaluate(frame)))

    def _if_or_with(self, branch: nodes.Branch, dot: type) -> Execute:
        value = self._pipe(branch.pipe, dot)
        evaluate = self._assigned(branch.pipe, value)
        changes_dot = branch.word == "with"
        body = self.block(branch.body, value.type if changes_dot else dot)
        otherwise = self.block(branch.otherwise, dot)

        def execute(frame: Frame) -> None:
            frame.spend(_STEP)
            found, before = evaluate(frame), frame.dot
            if not truth(found):
                otherwise(frame)
                return
            frame.dot = found if changes_dot else before
            body(frame)
            frame.dot = before

        return execute

    def _range(self, branch: nodes.Branch, dot: type) -> Execute:
        value = self._pipe(branch.pipe, dot)
        if value.type in (str, int, float, bool) or issubclass(value.type, GoStruct):
            raise TemplateError(
                branch.pipe.at, f"a value of type {type_name(value.type)} cannot be ranged over"
            )
        slots = self._slots(branch.pipe)
        body = self.block(branch.body, object)
        otherwise = self.block(branch.otherwise, dot)
        evaluate = value.evaluate

        def execute(frame: Frame) -> None:
            before = frame.dot
            pairs = _pairs(evaluate(frame))
            for pair in pairs:
                frame.spend(_STEP)
                for slot, each in zip(slots, pair[-len(slots) :] if slots else (), strict=True):
                    frame.variables[slot] = each
                frame.dot = pair[1]
                body(frame)
            frame.dot = before
            if not pairs:
                otherwise(frame)

        return execute

    # -- variables ------------------------------------------------------------------------------

    def _slots(self, pipe: nodes.Pipe) -> list[int]:
        """Return the slots of a pipeline's variables."""
        if not pipe.declares:
            return [self._slot(name, pipe.at) for name in pipe.names]
        self._scope += pipe.names
        self.most_variables = max(self.most_variables, len(self._scope))
        return list(range(len(self._scope) - len(pipe.names), len(self._scope)))

    def _slot(self, name: str, at: At) -> int:
        for slot in range(len(self._scope) - 1, -1, -1):
            if self._scope[slot] == name:
                return slot
        raise TemplateError(at, f"there is no variable {name}")

    def _assigned(self, pipe: nodes.Pipe, value: Expression) -> Evaluate:
        evaluate = value.evaluate
        if not pipe.names:
            return evaluate
        (slot,) = self._slots(pipe)

        def assign(frame: Frame) -> object:
            frame.variables[slot] = found = evaluate(frame)
            return found

        return assign

    # -- values ---------------------------------------------------------------------------------

    def _pipe(self, pipe: nodes.Pipe, dot: type) -> Expression:
        value: Expression | None = None
        for command in pipe.commands:
            value = self._command(command, dot, value)
        assert value is not None
        return value

    def _command(
        self, command: tuple[nodes.Operand, ...], dot: type, given: Expression | None
    ) -> Expression:
        first, *rest = command
        arguments = [self._value(each, dot) for each in rest]
        arguments += [given] if given is not None else []
        if isinstance(first, nodes.Function):
            return self._call(first, arguments)
        if isinstance(first, nodes.Field):
            return self._field(first, dot, arguments)
        value = self._value(first, dot)
        if isinstance(first, nodes.Constant) and first.value is None:
            raise TemplateError(first.at, "nil alone is no value")
        if arguments:
            at = position_of(rest[0] if rest else first)
            raise TemplateError(at, "an argument for what is no function")
        return value

    def _value(self, operand: nodes.Operand, dot: type) -> Expression:
        if isinstance(operand, nodes.Constant):
            constant = operand.value
            return Expression(lambda frame: constant, type(constant), True)
        if isinstance(operand, nodes.Dot):
            return Expression(lambda frame: frame.dot, dot)
        if isinstance(operand, nodes.Variable):
            return self._variable(operand)
        if isinstance(operand, nodes.Pipe):
            if operand.names:
                raise TemplateError(operand.at, "a variable cannot be set in parentheses")
            return self._pipe(operand, dot)
        if isinstance(operand, nodes.Function):
            return self._call(operand, [])
        return self._field(operand, dot, [])

    def _variable(self, operand: nodes.Variable) -> Expression:
        if operand.name == "$":
            return Expression(lambda frame: frame.root, self._root)
        slot = self._slot(operand.name, operand.at)
        return Expression(lambda frame: frame.variables[slot], object)

    def _field(self, field: nodes.Field, dot: type, arguments: list[Expression]) -> Expression:
        of = self._value(field.of, dot)
        if of.type is object:
            return _looked_up(of.evaluate, field, arguments)
        if (member := getattr(of.type, "members", {}).get(field.name)) is not None:
            return _member(of.evaluate, member, field, arguments)
        if issubclass(of.type, GoMap) and not arguments:
            return _looked_up(of.evaluate, field, arguments)
        raise TemplateError(field.at, f"{type_name(of.type)} has no field {field.name} here")

    def _call(self, function: nodes.Function, arguments: list[Expression]) -> Expression:
        name, at = function.name, function.at
        if name in ("and", "or"):
            return _and_or(name, at, arguments)
        known = FUNCTIONS.get(name)
        if known is None:
            offered = ", ".join(sorted({"and", "or", *FUNCTIONS}))
            raise TemplateError(at, f"there is no function {name} here; there are {offered}")
        if len(arguments) < known.least or len(arguments) > (known.most or len(arguments)):
            raise TemplateError(at, f"{name} cannot be given {len(arguments)} arguments")
        _check_arguments(name, at, arguments)
        evaluators = tuple(each.evaluate for each in arguments)
        return Expression(_charged(known, evaluators), known.returns)


def _charged(function: Function, evaluators: tuple[Evaluate, ...]) -> Evaluate:
    """Return a call of a function that counts the characters it reads and makes."""
    call = function.call
    size = _printed_size if function.returns is str else _size
    work = _STEP * (1 + len(evaluators))

    def evaluate(frame: Frame) -> object:
        values = [each(frame) for each in evaluators]
        frame.spend(work + sum(map(size, values)))
        found = call(*values)
        frame.spend(_size(found))
        return found

    return evaluate


def _size(value: object) -> int:
    return len(value) if isinstance(value, str) else 0


def _printed_size(value: object) -> int:
    """Return the approximate length of a value in print, in characters."""
    if isinstance(value, list):
        return sum(map(_printed_size, value)) + len(value)
    if isinstance(value, dict):
        return sum(map(_printed_size, value.values())) + sum(map(len, value))
    return _size(value)


def _ignore(value: object) -> None:
    """Discard a value: a declaration writes nothing."""


def _printable(kind: type[GoStruct]) -> bool:
    return kind.string is not GoStruct.string


def _takes(function: str, kind: type[GoStruct]) -> bool:
    """Return whether a function can print such a struct; ``print`` gets a pointer to it."""
    return kind.stringer or (_printable(kind) and not function.startswith("print"))


def _check_arguments(name: str, at: At, arguments: list[Expression]) -> None:
    """Reject arguments that would fail with every line."""
    if name == "printf" and arguments[0].constant:
        wrong = check_format(str(arguments[0].evaluate(Frame(None, 0))))
        if wrong:
            raise TemplateError(at, wrong)
    if name in COMPARISONS:
        kinds = {each.type for each in arguments if each.type in (str, int, float, bool)}
        if len(kinds) > 1:
            names = " and ".join(sorted(type_name(kind) for kind in kinds))
            raise TemplateError(at, f"{name} cannot compare {names}")
    for each in arguments:
        if issubclass(each.type, GoStruct) and not _takes(name, each.type):
            raise TemplateError(at, f"{name} cannot be given a whole {type_name(each.type)}")


def _and_or(name: str, at: At, arguments: list[Expression]) -> Expression:
    if not arguments:
        raise TemplateError(at, f"{name} needs an argument")
    evaluators = tuple(each.evaluate for each in arguments)
    stops_at = name == "or"

    def evaluate(frame: Frame) -> object:
        found: object = None
        for each in evaluators:
            frame.spend(_STEP)
            found = each(frame)
            if truth(found) is stops_at:
                break
        return found

    kinds = {each.type for each in arguments}
    return Expression(evaluate, kinds.pop() if len(kinds) == 1 else object)


def _member(
    of: Evaluate, member: Member, field: nodes.Field, arguments: list[Expression]
) -> Expression:
    if len(arguments) != len(member.parameters):
        raise TemplateError(
            field.at, f"{field.name} takes {len(member.parameters)} arguments, not {len(arguments)}"
        )
    for wanted, argument in zip(member.parameters, arguments, strict=True):
        if argument.type not in (object, wanted):
            raise TemplateError(
                field.at,
                f"{field.name} takes a {type_name(wanted)}, not {type_name(argument.type)}",
            )
    get = member.get
    if not arguments:
        return Expression(lambda frame: get(of(frame)), member.returns)
    evaluators = tuple(each.evaluate for each in arguments)
    parameters = member.parameters

    def call(frame: Frame) -> object:
        values = [each(frame) for each in evaluators]
        for value, wanted in zip(values, parameters, strict=True):
            if not isinstance(value, wanted):
                raise ExecutionError(f"{field.name} takes a {type_name(wanted)}")
        return get(of(frame), *values)

    return Expression(call, member.returns)


def _looked_up(of: Evaluate, field: nodes.Field, arguments: list[Expression]) -> Expression:
    """Return a field of a value whose type only a line shows."""
    name = field.name

    def look_up(frame: Frame) -> object:
        frame.spend(_STEP)
        value = of(frame)
        member = getattr(value, "members", {}).get(name)
        if member is not None:
            try:  # compiled again for each line: such templates are rare
                return _member(lambda _: value, member, field, arguments).evaluate(frame)
            except TemplateError as error:
                raise ExecutionError(str(error)) from error
        if isinstance(value, dict) and not arguments:
            return value.get(name, MISSING)
        raise ExecutionError(f"{field.at}: {type_name(type(value))} has no field {name}")

    return Expression(look_up, object)


def _pairs(value: object) -> list[tuple[object, object]]:
    """Return the pairs of a range: positions or keys, and values."""
    if isinstance(value, list):
        return list(enumerate(value))
    if isinstance(value, dict):
        return sorted(value.items())
    if value is None or value is MISSING:
        return []
    raise ExecutionError(f"a value of type {type_name(type(value))} cannot be ranged over")
