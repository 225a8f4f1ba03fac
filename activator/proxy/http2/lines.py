"""Field lines that are checked and written once: most lines of a request repeat the one before.

Lines that need no change go on as literals that are the same for every connection (``hpack``).
A line that was good once is good again: one look into a dict returns how it is written. A line
that is new with every request (``:path``, a request id) is checked and written each time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, final

from activator.proxy.http2.hpack import line, name_prefix, string
from activator.proxy.http2.never_indexed import NeverIndexed
from activator.proxy.message.grammar import FramingError

#: Lines that a memo holds at most, and bytes of one: it stays below 1 MiB whatever clients send.
MEMO_LINES: Final = 1024
MEMO_LINE_BYTES: Final = 512

_NAME_CHARACTERS: Final = b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
_SPACE: Final = b" \t"
#: What no value may have becomes something else: to take it out, CPython makes a table each time.
_VISIBLE: Final = bytes(
    byte if byte == 0x09 or (byte >= 0x20 and byte != 0x7F) else ord("?") for byte in range(256)
)


@final
class Treatment:
    """How lines of one name go on.

    Attributes:
        prefix: the line up to its value; empty if it does not go on.
        check: returns the value that goes on, or raises FramingError; None: any value does.
        kept: whether lines may be remembered.
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
    """Field lines of one kind of section.

    Attributes:
        known: lines by how each goes on; empty where it does not.
    """

    __slots__ = ("_names", "_treatment_of", "known")

    def __init__(self, treatment_of: Callable[[bytes], Treatment]) -> None:
        """Arguments: treatment_of: of a name that is well-formed, pseudo or not."""
        self._treatment_of = treatment_of
        self._names: dict[bytes, Treatment] = {}
        # Any stands for Field: compiled code would copy each pair, and lose NeverIndexed.
        self.known: dict[Any, bytes] = {}

    def read(self, fields: list[Any]) -> bytes:
        """Return the lines that go on, as a header block.

        Arguments:
            fields: the section's, each a Field.

        Raises:
            FramingError: one is malformed.
        """
        lines: list[Any] = list(map(self.known.get, fields))
        for at, known in enumerate(lines):
            if known is None:
                lines[at] = self._write(fields[at])
        return b"".join(lines)

    def _write(self, field: Any) -> bytes:
        """Check a line and return how it goes on; remember it if it may come again."""
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
        # In one byte, where the static table has it.
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
