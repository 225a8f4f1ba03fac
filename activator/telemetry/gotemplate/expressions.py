"""Compiles calls of functions, fields and methods of a template, and checks their arguments."""

from __future__ import annotations

from activator.telemetry.gotemplate import nodes
from activator.telemetry.gotemplate.errors import At, ExecutionError, TemplateError
from activator.telemetry.gotemplate.frame import STEP, Evaluate, Expression, Frame
from activator.telemetry.gotemplate.functions import COMPARISONS, FUNCTIONS, Function
from activator.telemetry.gotemplate.printf import check_format
from activator.telemetry.gotemplate.values import MISSING, GoStruct, Member, truth, type_name


def called(name: str, at: At, arguments: list[Expression]) -> Expression:
    """Return the call of a function.

    Raises:
        TemplateError: there is no such function, or it cannot have these arguments.
    """
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
    work = STEP * (1 + len(evaluators))

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


def is_printable(kind: type[GoStruct]) -> bool:
    """Return whether a line can show such a struct."""
    return kind.string is not GoStruct.string


def _takes(function: str, kind: type[GoStruct]) -> bool:
    """Return whether a function can print such a struct; ``print`` gets a pointer to it."""
    return kind.stringer or (is_printable(kind) and not function.startswith("print"))


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


def and_or(name: str, at: At, arguments: list[Expression]) -> Expression:
    """Return a call of ``and`` or ``or``, which evaluates no more arguments than it needs."""
    if not arguments:
        raise TemplateError(at, f"{name} needs an argument")
    evaluators = tuple(each.evaluate for each in arguments)
    stops_at = name == "or"

    def evaluate(frame: Frame) -> object:
        found: object = None
        for each in evaluators:
            frame.spend(STEP)
            found = each(frame)
            if truth(found) is stops_at:
                break
        return found

    kinds = {each.type for each in arguments}
    return Expression(evaluate, kinds.pop() if len(kinds) == 1 else object)


def member_of(
    of: Evaluate, member: Member, field: nodes.Field, arguments: list[Expression]
) -> Expression:
    """Return a field or method of a value.

    Raises:
        TemplateError: it cannot have these arguments.
    """
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


def looked_up(of: Evaluate, field: nodes.Field, arguments: list[Expression]) -> Expression:
    """Return a field of a value whose type only a line shows."""
    name = field.name

    def look_up(frame: Frame) -> object:
        frame.spend(STEP)
        value = of(frame)
        member = getattr(value, "members", {}).get(name)
        if member is not None:
            try:  # compiled again for each line: such templates are rare
                return member_of(lambda _: value, member, field, arguments).evaluate(frame)
            except TemplateError as error:
                raise ExecutionError(str(error)) from error
        if isinstance(value, dict) and not arguments:
            return value.get(name, MISSING)
        raise ExecutionError(f"{field.at}: {type_name(type(value))} has no field {name}")

    return Expression(look_up, object)
