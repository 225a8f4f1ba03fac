"""Rules for code that mypyc compiles: each finds code that would compile and then do another thing.

Every rule looks at the syntax tree alone and returns findings as ``line: what is wrong``. A rule
may flag code that is right; then write it another way, or for a slice state the reason.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Final

Function = ast.FunctionDef | ast.AsyncFunctionDef
Rule = Callable[[str], list[str]]

#: A comment behind a slice that says why its start is never beyond its stop.
_ORDERED: Final = re.compile(r"# ordered: \S+")


@lru_cache(maxsize=1)
def _nodes(source: str) -> tuple[ast.AST, ...]:
    """Return all nodes of a file's syntax; all rules look at one file before the next."""
    return tuple(ast.walk(ast.parse(source)))


def _functions(source: str) -> Iterator[Function]:
    return (node for node in _nodes(source) if isinstance(node, Function))


def _own(function: Function) -> Iterator[ast.AST]:
    """Yield the nodes of a function, without nested functions and classes."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, Function | ast.ClassDef | ast.Lambda):
            waiting.extend(ast.iter_child_nodes(node))


# A slice whose start is beyond its stop.


def slices(source: str) -> list[str]:
    """Flag slices of two bounds whose start may be beyond the stop.

    mypyc's bytes[start:stop] raises SystemError there, where Python returns nothing. Accepted are
    a stop written as ``start + …``, two numbers in order, a step, and a comment
    ``# ordered: reason`` on the line.
    """
    lines = source.splitlines()
    found = []
    for node in _nodes(source):
        if not isinstance(node, ast.Slice) or _is_ordered(node):
            continue
        if not _ORDERED.search(lines[node.lineno - 1]):
            found.append(f"{node.lineno}: [{ast.unparse(node)}] may start beyond its stop")
    return found


def _is_ordered(node: ast.Slice) -> bool:
    if node.lower is None or node.upper is None or node.step is not None:
        return True
    lower, upper = ast.unparse(node.lower), ast.unparse(node.upper)
    if lower.isdigit() and upper.isdigit():
        return int(lower) <= int(upper)
    return lower == "0" or upper.startswith(f"{lower} + ")


# One name for exceptions of several types.


def exception_names(source: str) -> list[str]:
    """Flag functions that bind exceptions of different types to one name.

    mypyc gives the name the first type, and raises TypeError when another one is bound.
    """
    found = []
    for function in _functions(source):
        bound: dict[str, str] = {}
        for node in _own(function):
            if not isinstance(node, ast.ExceptHandler) or node.name is None:
                continue
            of = ast.unparse(node.type) if node.type else ""
            if bound.setdefault(node.name, of) != of:
                found.append(
                    f"{node.lineno}: {node.name!r} is bound to {bound[node.name]} and {of}"
                )
    return found


# An attribute that is narrowed, and then changed by a call.


def narrowed_attributes(source: str, others: frozenset[str] = frozenset()) -> list[str]:
    """Flag reads of an attribute that a call may have changed since the checker narrowed it.

    The checker keeps the narrow type across calls, and mypyc casts the value to it: where a call
    has set the attribute to None, the read raises TypeError. So an attribute that a function
    has assigned, or found to be there, may be compared, returned or passed on only up to the next
    call. Calling a method of it is no finding: Python would fail there as well.

    Arguments:
        others: names of attributes that other modules declare as one type or another.
    """
    unions = union_attributes(source) | others
    return [line for function in _functions(source) for line in _narrowed_in(function, unions)]


def union_attributes(source: str) -> frozenset[str]:
    """Return the names of attributes that are declared as one type or another."""
    found = set()
    for node in _nodes(source):
        if isinstance(node, ast.AnnAssign) and "|" in ast.unparse(node.annotation):
            target = node.target
            found.add(target.attr if isinstance(target, ast.Attribute) else ast.unparse(target))
    return frozenset(found)


def _narrowed_in(function: Function, unions: frozenset[str]) -> Iterator[str]:
    nodes = list(_own(function))
    bases = {id(child.value) for child in nodes if isinstance(child, ast.Attribute)}
    bases |= {id(child.value) for child in nodes if isinstance(child, ast.Subscript)}
    calls = sorted(_end(node) for node in nodes if isinstance(node, ast.Call))
    passing = {
        name.id
        for node in nodes
        if isinstance(node, ast.comprehension)
        for name in ast.walk(node.target)
        if isinstance(name, ast.Name)
    }
    for chain, start in _narrowings(nodes, unions):
        if chain.partition(".")[0] in passing:
            continue  # a different object each time
        for node in nodes:
            if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load):
                continue
            if not chain.endswith(node.attr) or id(node) in bases:
                continue
            if ast.unparse(node) != chain or _is_none_test(node, nodes):
                continue
            read = (node.lineno, node.col_offset)
            if any(start < call <= read for call in calls) and not _set_between(
                nodes, chain, start, read
            ):
                yield f"{node.lineno}: {chain} may have changed since line {start[0]}"


def _end(node: ast.expr) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or node.col_offset


def _narrowings(
    nodes: list[ast.AST], unions: frozenset[str]
) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield each attribute that an assignment or a test narrows, and where that ends."""
    for node in nodes:
        if isinstance(node, ast.Assign) and not _is_none(node.value):
            narrowed: list[ast.expr] = node.targets
            end = _end(node.value)
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Is | ast.IsNot):
            narrowed, end = [node.left, node.comparators[0]], _end(node)
        elif isinstance(node, ast.If | ast.While | ast.IfExp | ast.Assert):
            narrowed, end = [node.test, getattr(node.test, "operand", node.test)], _end(node.test)
        elif isinstance(node, ast.BoolOp):
            narrowed, end = node.values, _end(node.values[0])
        else:
            continue
        for each in narrowed:
            if isinstance(each, ast.Attribute) and each.attr in unions:
                yield ast.unparse(each), end


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_none_test(node: ast.Attribute, nodes: list[ast.AST]) -> bool:
    """Return whether a read only tests whether the attribute is set, which needs no cast."""
    return any(
        isinstance(test, ast.Compare) and test.left is node and _is_none(test.comparators[0])
        for test in nodes
    )


def _set_between(
    nodes: list[ast.AST], chain: str, start: tuple[int, int], read: tuple[int, int]
) -> bool:
    """Return whether another assignment is between a narrowing and a read."""
    return any(
        isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and ast.unparse(node) == chain
        and start < (node.lineno, node.col_offset) < read
        for node in nodes
    )


# Callbacks of a protocol that asyncio would provide.

#: Methods that a loop calls on the protocol of a stream.
CALLBACKS: Final = frozenset(
    {
        *("connection_made", "data_received", "eof_received", "connection_lost"),
        *("pause_writing", "resume_writing"),
    }
)
_PROTOCOL: Final = re.compile(r"(typing\.|asyncio\.)?(Buffered)?Protocol")


def callbacks(source: str) -> list[str]:
    """Flag a protocol of a stream that lacks a callback and has no asyncio class as its base."""
    classes = {node.name: node for node in _nodes(source) if isinstance(node, ast.ClassDef)}
    found = []
    for node in classes.values():
        bases, names = _bases(node, classes)
        if any(_PROTOCOL.fullmatch(base) for base in bases):  # an interface, or asyncio's
            continue
        if "data_received" in names and (missing := sorted(CALLBACKS - names)):
            found.append(f"{node.lineno}: {node.name} lacks {', '.join(missing)}")
    return found


def _bases(node: ast.ClassDef, classes: Mapping[str, ast.ClassDef]) -> tuple[set[str], set[str]]:
    """Return the names of all bases of a class in its module, and of all methods."""
    bases = {ast.unparse(base) for base in node.bases}
    names = {each.name for each in node.body if isinstance(each, Function)}
    for base in [classes[name] for name in bases if name in classes]:
        more_bases, more_names = _bases(base, classes)
        bases |= more_bases
        names |= more_names
    return bases, names


# Class attributes of exceptions.


def exception_defaults(source: str) -> list[str]:
    """Flag an attribute that the body of an exception's class sets, unless it is a ClassVar.

    mypyc sets such defaults when it makes an instance, but not for a class that derives from
    BaseException: reading the attribute raises AttributeError.
    """
    classes = {node.name: node for node in _nodes(source) if isinstance(node, ast.ClassDef)}
    return [
        f"{line.lineno}: a default of the exception {node.name} that is no ClassVar"
        for node in classes.values()
        if any(_EXCEPTION.fullmatch(base) for base in _bases(node, classes)[0])
        for line in node.body
        if isinstance(line, ast.Assign)
        or (
            isinstance(line, ast.AnnAssign)
            and line.value is not None
            and not ast.unparse(line.annotation).startswith("ClassVar")
        )
    ]


_EXCEPTION: Final = re.compile(r"\w*(Exception|Error|Fault)")


# What a set and the keys of a dict make.


def set_operators(source: str) -> list[str]:
    """Flag a set operator with the keys or items of a dict on its right.

    ``frozenset - dict.keys()`` is a set, where the checker takes it for a frozenset: compiled code
    raises TypeError. Use the methods of sets.
    """
    return [
        f"{node.lineno}: {ast.unparse(node)} may be another kind of set than declared"
        for node in _nodes(source)
        if isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Sub | ast.BitAnd | ast.BitOr | ast.BitXor)
        and _is_view(node.right)
        and not _is_view(node.left)
    ]


def _is_view(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func).endswith((".keys", ".items"))


#: The rules for a compiled module, without narrowed_attributes.
RULES: Final[tuple[Rule, ...]] = (
    slices,
    exception_names,
    callbacks,
    exception_defaults,
    set_operators,
)


# Interpreted classes that inherit from compiled ones.


_NAME: Final = re.compile(r"\w+")
#: The bases of a class, up to the first bracket that ends.
_BASES: Final = re.compile(r"^[ \t]*class\s+\w+(?:\[[^]]*\])?\s*\(([^)]*)\)", re.MULTILINE)
_IMPORTS: Final = re.compile(
    r"^[ \t]*(?:from\s+([\w.]+)\s+import\s+(\([^)]*\)|[^\n]*)|import\s+([^\n]+))", re.MULTILINE
)


def _imported(source: str, modules: frozenset[str]) -> set[str]:
    """Return the words of all imports that may lead to one of the modules."""
    words = set()
    for module, names, whole in _IMPORTS.findall(source):
        if module in modules or any(f"{module}.{name}" in modules for name in _NAME.findall(names)):
            words |= set(_NAME.findall(names))
        words |= set(_NAME.findall(whole))
    return words


def inheritors(source: str, compiled: frozenset[str]) -> list[str]:
    """Flag classes of an interpreted file that inherit from a class of a compiled module.

    Arguments:
        compiled: the modules of the table. A class with such a base raises TypeError when it is
            made.
    """
    if not set(_NAME.findall(" ".join(_BASES.findall(source)))) & _imported(source, compiled):
        return []  # to parse all files would take long
    whole: dict[str, str] = {}  # what a name stands for, with its module
    for node in _nodes(source):
        if isinstance(node, ast.ImportFrom):
            whole |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    found = []
    for node in (each for each in _nodes(source) if isinstance(each, ast.ClassDef)):
        for base in node.bases:
            first, dot, rest = ast.unparse(base).partition("[")[0].partition(".")
            module = (whole.get(first, first) + dot + rest).rpartition(".")[0]
            if module in compiled:
                found.append(f"{node.lineno}: {node.name} inherits from {ast.unparse(base)}")
    return found


# Constants that a test replaces.


_REPLACED: Final = re.compile(r"""setattr\(\s*(\w+),\s*["'](\w+)["'](?!.*# pure: \S)""")


def replaced_constants(source: str, compiled: Mapping[str, str]) -> list[str]:
    """Flag constants of compiled modules that a test replaces although they are Final.

    mypyc writes the value of a Final number into the code that reads it: the test would replace
    nothing there. A comment ``# pure: reason`` behind the call permits it.

    Arguments:
        compiled: the source of each compiled module.
    """
    replaced = [(each[1], each[2], each.start()) for each in _REPLACED.finditer(source)]
    if not replaced:
        return []
    whole = {
        each.asname or each.name: f"{node.module}.{each.name}"
        for node in _nodes(source)
        if isinstance(node, ast.ImportFrom)
        for each in node.names
    }
    return [
        f"{source.count(chr(10), 0, start) + 1}: {module}.{name} is Final"
        for module, name, start in replaced
        if re.search(rf"^{name}: Final\b", compiled.get(whole.get(module, ""), ""), re.MULTILINE)
    ]
