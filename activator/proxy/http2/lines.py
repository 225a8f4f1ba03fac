"""Checks and encodes each recurring field line once: most lines repeat in the next request.

A forwarded line is a literal with the same bytes on every connection (``hpack``). So one lookup in
a dict returns the encoded form of a line that was valid before. Lines that are new in each request
(``:path``, a request id) are checked and encoded each time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, final

from activator.proxy.http2.hpack import line, name_prefix, string
from activator.proxy.http2.never_indexed import NeverIndexed
from activator.proxy.message.grammar import FramingError

#: Most lines in the dict, and most bytes of one line: the dict stays below 1 MiB.
MEMO_LINES: Final = 1024
MEMO_LINE_BYTES: Final = 512

_NAME_CHARACTERS: Final = b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
_SPACE: Final = b" \t"
#: Maps each invalid byte of a value to another one: CPython deletes bytes only with a new table.
_VISIBLE: Final = bytes(
    byte if byte == 0x09 or (byte >= 0x20 and byte != 0x7F) else ord("?") for byte in range(256)
)


@final
class Treatment:
    """How lines of one name are forwarded.

    Attributes:
        prefix: the line up to its value; empty if the line is not forwarded.
        check: returns the value to forward, or raises FramingError; None accepts any value.
        kept: whether the dict may keep lines.
    """

    __slots__ = ("check", "kept", "prefix")

    def __init__(
        self, prefix: bytes, check: Callable[[bytes], bytes] | None = None, kept: bool = True
    ) -> None:
        self.prefix = prefix
        self.check = check
        self.kept = kept


@final
class Lines:
    """The field lines of one kind of section.

    Attributes:
        known: the encoded form of each valid line; empty for a line that is not forwarded.
    """

    __slots__ = ("_names", "_treatment_of", "known")

    def __init__(self, treatment_of: Callable[[bytes], Treatment]) -> None:
        """Arguments: treatment_of: returns the treatment of a well-formed name, pseudo or not."""
        self._treatment_of = treatment_of
        self._names: dict[bytes, Treatment] = {}
        # The type is Any, not Field: compiled code would copy each pair, and lose NeverIndexed.
        self.known: dict[Any, bytes] = {}

    def read(self, fields: list[Any]) -> bytes:
        """Return the forwarded lines as a header block.

        Arguments:
            fields: the fields of the section, each a Field.

        Raises:
            FramingError: a line is malformed.
        """
        lines: list[Any] = list(map(self.known.get, fields))
        for at, known in enumerate(lines):
            if known is None:
                lines[at] = self._write(fields[at])
        return b"".join(lines)

    def _write(self, field: Any) -> bytes:
        """Check a line, and return its encoded form; keep it if it may recur."""
        name: bytes = field[0]
        value: bytes = field[1]
        treatment = self._names.get(name)
        if treatment is None:
            treatment = self._learn_name(name)
        if value.translate(_VISIBLE).strip(_SPACE) != value:
            raise FramingError(f"malformed value of {name.decode()}")
        if treatment.check is not None:
            value = treatment.check(value)
        if isinstance(field, NeverIndexed):
            prefix = treatment.prefix
            return name_prefix(name, never_indexed=True) + string(value) if prefix else b""
        if not treatment.kept:
            return treatment.prefix + string(value) if treatment.prefix else b""
        # ``line`` needs one byte if the static table has the field.
        written = line(name, value) if treatment.prefix else b""
        if len(name) + len(value) <= MEMO_LINE_BYTES:
            if len(self.known) >= MEMO_LINES:
                self.known.clear()
            self.known[field] = written
        return written

    def _learn_name(self, name: bytes) -> Treatment:
        if not name or name.removeprefix(b":").translate(None, _NAME_CHARACTERS):
            raise FramingError("malformed field name")
        treatment = self._treatment_of(name)
        if len(name) <= MEMO_LINE_BYTES:
            if len(self._names) >= MEMO_LINES:
                self._names.clear()
            self._names[name] = treatment
        return treatment
