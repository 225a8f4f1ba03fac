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
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import yaml
from yaml.composer import Composer

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


class _Loader(Composer, yaml.CSafeLoader):
    """The C parser with the safe tags; times stay texts, as in Kubernetes.

    PyYAML's composer in Python makes the nodes, with limits. The one in C recurses without a limit.
    """

    yaml_implicit_resolvers: ClassVar[Any] = {  # type: ignore[misc] # where PyYAML looks
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
        for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
    }
    yaml_constructors: ClassVar[Any] = {
        **yaml.CSafeLoader.yaml_constructors,
        _TIMESTAMP: yaml.CSafeLoader.construct_yaml_str,
    }

    def __init__(self, text: str) -> None:
        yaml.CSafeLoader.__init__(self, text)
        Composer.__init__(self)
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Return the next node of a document, within the limits. Raises ``DocumentError``."""
        if parent is None:  # anchors end with a document
            self._weight = 0
            self._weights: dict[str, int] = {}  # of the whole values with an anchor
            self._keys: dict[yaml.Node, set[tuple[str, str]]] = {}
        event: Any = self.peek_event()
        is_collection = isinstance(event, yaml.CollectionStartEvent)
        if is_collection and self._depth >= MAX_DEPTH:
            _fail(event, f"nested more than {MAX_DEPTH} levels deep")
        before, weight = self._weight, 1
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._weights:
                what = "refers to nothing, or to a value that contains it"
                _fail(event, f"alias *{event.anchor} {what}")
            weight = self._weights[event.anchor]
        elif event.anchor is not None:  # a later value may have the anchor of an earlier one
            self.anchors.pop(event.anchor, None)
            self._weights.pop(event.anchor, None)
        self._depth += is_collection
        node = super().compose_node(parent, index)
        self._depth -= is_collection
        self._weight += weight
        if self._weight > MAX_NODES:
            _fail(node, f"more than {MAX_NODES} values with all aliases resolved")
        if event.anchor is not None:
            self._weights[event.anchor] = self._weight - before
        if isinstance(parent, yaml.MappingNode) and index is None:
            self._check_key(parent, node)
        return node

    def _check_key(self, parent: yaml.Node, node: yaml.Node | None) -> None:
        if not isinstance(node, yaml.ScalarNode):
            _fail(node, "a key must be a plain value")
        known, identity = self._keys.setdefault(parent, set()), (node.tag, node.value)
        if identity in known:
            _fail(node, f"duplicate key {node.value!a}")
        known.add(identity)


def _yaml_documents(text: str) -> Iterator[Document]:
    try:
        loader = _Loader(text)
        while loader.check_node():
            node = loader.get_node()
            assert node is not None
            yield Document(_construct(loader, node), node.start_mark.line + 1)
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


def _construct(loader: _Loader, node: yaml.Node) -> object:
    try:
        return loader.construct_document(node)
    except yaml.YAMLError:
        raise
    except Exception as error:
        # PyYAML's constructors let Python's own errors pass, such as int() of 5,000 digits. They
        # concern this document alone.
        mark = node.start_mark
        reason = f"in the document that starts here: {error}"
        raise DocumentError(mark.line + 1, mark.column + 1, reason) from None


def _fail(at: Any, reason: str) -> NoReturn:
    raise DocumentError(at.start_mark.line + 1, at.start_mark.column + 1, reason)
