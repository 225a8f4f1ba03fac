"""Compiles the nodes of a template to one function, which is called for each line.

The compiler rejects a missing field, an argument too many, or a comparison of two types that have
no order. Source: Go's text/template (exec.go), where each of these mistakes fails line by line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from activator.telemetry.gotemplate import nodes
from activator.telemetry.gotemplate.errors import At, ExecutionError, TemplateError
from activator.telemetry.gotemplate.expressions import (
    and_or,
    called,
    is_printable,
    looked_up,
    member_of,
)
from activator.telemetry.gotemplate.frame import STEP, Evaluate, Execute, Expression, Frame
from activator.telemetry.gotemplate.parser import parse, position_of
from activator.telemetry.gotemplate.values import (
    MISSING,
    GoMap,
    GoStruct,
    show,
    truth,
    type_name,
)

T = TypeVar("T", bound=GoStruct)


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

        work = STEP * len(steps)

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
        if issubclass(value.type, GoStruct) and not is_printable(value.type):
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
            frame.spend(STEP)
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
                frame.spend(STEP)
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
            return looked_up(of.evaluate, field, arguments)
        if (member := getattr(of.type, "members", {}).get(field.name)) is not None:
            return member_of(of.evaluate, member, field, arguments)
        if issubclass(of.type, GoMap) and not arguments:
            return looked_up(of.evaluate, field, arguments)
        raise TemplateError(field.at, f"{type_name(of.type)} has no field {field.name} here")

    def _call(self, function: nodes.Function, arguments: list[Expression]) -> Expression:
        name, at = function.name, function.at
        if name in ("and", "or"):
            return and_or(name, at, arguments)
        return called(name, at, arguments)


def _ignore(value: object) -> None:
    """Discard a value: a declaration writes nothing."""


def _pairs(value: object) -> list[tuple[object, object]]:
    """Return the pairs of a range: positions or keys, and values."""
    if isinstance(value, list):
        return list(enumerate(value))
    if isinstance(value, dict):
        return sorted(value.items())
    if value is None or value is MISSING:
        return []
    raise ExecutionError(f"a value of type {type_name(type(value))} cannot be ranged over")
