"""Parses the bytes of one YAML or JSON file into documents; errors name the line and the column.

Pure: the result is documents or ``DocumentError``. It must not know the meaning of the documents.
It refuses small files with huge or ambiguous contents:

- deep nesting: PyYAML's C composer recurses without limit, which crashes the process;
- aliases that multiply;
- duplicate keys: YAML and JSON libraries silently use the last one.

Knative has no counterpart; in a cluster, ``kubectl`` parses files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn

import yaml

# Objects of Kubernetes nest about 15 levels; Python's own recursion limit must stay far away.
MAX_DEPTH = 100

# Most nodes of a document; an alias counts as the nodes that it stands for. An Endpoints object
# with 1,000 addresses has about 20,000 nodes.
MAX_NODES = 2_000_000

_TIMESTAMP = "tag:yaml.org,2002:timestamp"


class DocumentError(ValueError):
    """A file is broken.

    Attributes:
        line: of the error, counted from 1.
        column: of the error, counted from 1.
        reason: the error.
    """

    def __init__(self, line: int, column: int, reason: str) -> None:
        self.line = line
        self.column = column
        self.reason = reason
        super().__init__(f"line {line}, column {column}: {reason}")


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a file, and the line (from 1) on which it starts."""

    value: object
    line: int


def parse(data: bytes, *, is_json: bool) -> list[Document]:
    """Return all documents of a file.

    Arguments:
        data: the content of the file.
        is_json: whether it is JSON, which may also have several documents.

    Returns:
        The documents in their order, without empty ones.

    Raises:
        DocumentError: the file is broken; the caller must use no part of it.
    """
    text = _decode(data)
    found = _json_documents(text) if is_json else _yaml_documents(text)
    return [document for document in found if document.value is not None]


def _decode(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise DocumentError(line, column, f"not UTF-8: byte 0x{data[error.start]:02x}") from None


def _json_documents(text: str) -> Iterator[Document]:
    decoder = json.JSONDecoder(object_pairs_hook=_object)
    position = _skip_space(text, 0)
    while position < len(text):
        line = text.count("\n", 0, position) + 1
        try:
            value, end = decoder.raw_decode(text, position)
        except json.JSONDecodeError as error:
            raise DocumentError(error.lineno, error.colno, error.msg) from None
        except RecursionError:
            raise DocumentError(line, 1, "nested too deeply") from None
        except ValueError as error:
            raise DocumentError(line, 1, f"in the document that starts here: {error}") from None
        yield Document(value, line)
        position = _skip_space(text, end)


def _skip_space(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    return position


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"duplicate key {key!a}")
        found[key] = value
    return found


class _Loader(yaml.CSafeLoader):
    """The C parser with the safe tags; times stay texts, as in Kubernetes."""

    yaml_implicit_resolvers: ClassVar[Any] = {  # type: ignore[misc] # where PyYAML looks
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
        for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
    }


def _yaml_documents(text: str) -> Iterator[Document]:
    try:
        loader = _Loader(text)
        yield from _composed(loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise DocumentError(line, column, error.problem or "malformed") from None
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        raise DocumentError(line, column, "a character that YAML does not allow") from None
    except yaml.YAMLError as error:
        raise DocumentError(1, 1, f"malformed: {error}") from None


def _composed(loader: _Loader) -> Iterator[Document]:
    composer = _Composer(loader)
    while not loader.check_event(yaml.StreamEndEvent):
        event: Any = loader.get_event()
        if isinstance(event, yaml.DocumentStartEvent):
            composer.start()
        elif isinstance(event, yaml.DocumentEndEvent):
            node = composer.root
            if node is not None:
                yield Document(_construct(loader, node), node.start_mark.line + 1)
        elif not isinstance(event, yaml.StreamStartEvent):
            composer.take(event)


def _construct(loader: _Loader, node: yaml.Node) -> object:
    try:
        return loader.construct_document(node)
    except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError) as error:
        # PyYAML's constructors do not catch Python's own errors, such as int() of 5,000 digits.
        mark = node.start_mark
        reason = f"in the document that starts here: {error}"
        raise DocumentError(mark.line + 1, mark.column + 1, reason) from None


@dataclass(slots=True)
class _Open:
    """A list or mapping before its end."""

    node: yaml.Node
    anchor: str | None
    weight: int = 1
    key: yaml.Node | None = None
    keys: set[tuple[str, str]] = field(default_factory=set)


class _Composer:
    """Builds the nodes of one document from its events, with an explicit stack.

    PyYAML's composer recurses in C instead, without a limit.
    """

    def __init__(self, loader: _Loader) -> None:
        self._loader = loader
        self.start()

    def start(self) -> None:
        """Begin the next document; anchors end with a document."""
        self.root: yaml.Node | None = None
        self._stack: list[_Open] = []
        self._anchors: dict[str, tuple[yaml.Node, int]] = {}
        self._weight = 0

    def take(self, event: Any) -> None:
        """Process one event. Raises ``DocumentError``."""
        if isinstance(event, yaml.AliasEvent):
            self._alias(event)
        elif isinstance(event, yaml.ScalarEvent):
            self._scalar(event)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._open(event)
        else:
            self._close()

    def _scalar(self, event: Any) -> None:
        tag = self._tag(yaml.ScalarNode, event, event.value)
        node = yaml.ScalarNode(tag, event.value, event.start_mark, event.end_mark)
        self._remember(event.anchor, node, 1)
        self._place(node, 1)

    def _tag(self, node_class: type[yaml.Node], event: Any, value: str | None) -> str:
        if event.tag is not None and event.tag != "!":
            return str(event.tag)
        return str(self._loader.resolve(node_class, value, event.implicit))  # type: ignore[no-untyped-call] # PyYAML has no types here

    def _open(self, event: Any) -> None:
        if len(self._stack) >= MAX_DEPTH:
            _fail(event, f"nested more than {MAX_DEPTH} levels deep")
        is_list = isinstance(event, yaml.SequenceStartEvent)
        node_class = yaml.SequenceNode if is_list else yaml.MappingNode
        node = node_class(self._tag(node_class, event, None), [], event.start_mark, event.end_mark)
        if event.anchor is not None:
            # Before its end, an alias to it would make a list that contains itself.
            self._anchors.pop(event.anchor, None)
        self._stack.append(_Open(node, event.anchor))

    def _close(self) -> None:
        done = self._stack.pop()
        self._remember(done.anchor, done.node, done.weight)
        # The contents are already counted.
        self._place(done.node, done.weight, counted=done.weight - 1)

    def _alias(self, event: Any) -> None:
        known = self._anchors.get(event.anchor)
        if known is None:
            _fail(event, f"alias *{event.anchor} refers to nothing, or to a value that contains it")
        self._place(known[0], known[1])

    def _remember(self, anchor: str | None, node: yaml.Node, weight: int) -> None:
        if anchor is not None:
            self._anchors[anchor] = (node, weight)

    def _place(self, node: yaml.Node, weight: int, counted: int = 0) -> None:
        self._weight += weight - counted
        if self._weight > MAX_NODES:
            _fail(node, f"more than {MAX_NODES} values with all aliases resolved")
        if not self._stack:
            self.root = node
            return
        parent = self._stack[-1]
        parent.weight += weight
        if isinstance(parent.node, yaml.SequenceNode):
            parent.node.value.append(node)
        elif parent.key is None:
            parent.key = self._checked_key(parent, node)
        else:
            parent.node.value.append((parent.key, node))
            parent.key = None

    def _checked_key(self, parent: _Open, node: yaml.Node) -> yaml.Node:
        if not isinstance(node, yaml.ScalarNode):
            _fail(node, "a key must be a plain value")
        identity = (node.tag, node.value)
        if identity in parent.keys:
            _fail(node, f"duplicate key {node.value!a}")
        parent.keys.add(identity)
        return node


def _fail(at: Any, reason: str) -> NoReturn:
    raise DocumentError(at.start_mark.line + 1, at.start_mark.column + 1, reason)
