"""Field lines that are checked and written once: most of a request's are those of the one before.

Lines that need no change go on as literals that are the same for every connection (``hpack``),
and a line that was good once is good again. So it costs one look into a dict, which says both
that the line is well-formed and how it is written. What is new with every request (``:path``, a
request id) is checked and written anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from activator.proxy.http2.hpack import Field, line, name_prefix, string
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


class Treatment(NamedTuple):
    """What becomes of the lines of one name.

    Attributes:
        prefix: the line up to its value; empty if it does not go on.
        check: returns the value that goes on, or raises FramingError; None: any value does.
        kept: whether lines may be remembered.
    """

    prefix: bytes
    check: Callable[[bytes], bytes] | None = None
    kept: bool = True


class Lines(dict[Field, bytes]):
    """Field lines of one kind of section, by how each goes on; empty where it does not.

    Asked for one that is not in it, it checks and writes it, and may remember it.
    """

    __slots__ = ("_names", "_treatment_of")

    def __init__(self, treatment_of: Callable[[bytes], Treatment]) -> None:
        """Arguments: treatment_of: of a name that is well-formed, pseudo or not."""
        self._treatment_of = treatment_of
        self._names: dict[bytes, Treatment] = {}

    def read(self, fields: list[Field]) -> bytes:
        """Return the lines that go on, as a header block.

        Raises:
            FramingError: one is malformed.
        """
        return b"".join(map(self.__getitem__, fields))

    def __missing__(self, field: Field) -> bytes:
        name, value = field
        treatment = self._names.get(name)
        if treatment is None:
            treatment = self._learn_name(name)
        prefix, check, kept = treatment
        if value.translate(_VISIBLE).strip(_SPACE) != value:
            raise FramingError(f"malformed value of {name.decode()}")
        if check is not None:
            value = check(value)
        if isinstance(field, NeverIndexed):
            return name_prefix(name, never_indexed=True) + string(value) if prefix else b""
        if not prefix:
            passed = b""
        elif kept:
            passed = line(name, value)  # in one byte, where the static table has it
        else:
            passed = prefix + string(value)
        if kept and len(name) + len(value) <= MEMO_LINE_BYTES:
            if len(self) >= MEMO_LINES:
                self.clear()
            self[field] = passed
        return passed

    def _learn_name(self, name: bytes) -> Treatment:
        if not name or name.removeprefix(b":").translate(None, _NAME_CHARACTERS):
            raise FramingError("malformed field name")
        treatment = self._treatment_of(name)
        if len(name) <= MEMO_LINE_BYTES:
            if len(self._names) >= MEMO_LINES:
                self._names.clear()
            self._names[name] = treatment
        return treatment
