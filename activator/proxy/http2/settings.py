"""The settings that the two sides of an HTTP/2 connection announce (RFC 9113 section 6.5)."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final

from activator.proxy.http2.errors import ConnectionFault, ErrorCode
from activator.proxy.http2.frames import DEFAULT_MAX_FRAME, MAX_31_BITS

_SETTING: Final = struct.Struct(">HL")


class Setting(IntEnum):
    """RFC 9113 section 6.5.2; RFC 8441 section 3."""

    HEADER_TABLE_SIZE = 1
    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5
    MAX_HEADER_LIST_SIZE = 6
    ENABLE_CONNECT_PROTOCOL = 8


_ANY_VALUE: Final = (0, (1 << 32) - 1, ErrorCode.PROTOCOL_ERROR)
#: The values that a setting may have, and the error if it has another (section 6.5.2).
_SETTING_VALUES: Final[Mapping[int, tuple[int, int, ErrorCode]]] = {
    Setting.ENABLE_PUSH: (0, 1, ErrorCode.PROTOCOL_ERROR),
    Setting.INITIAL_WINDOW_SIZE: (0, MAX_31_BITS, ErrorCode.FLOW_CONTROL_ERROR),
    Setting.MAX_FRAME_SIZE: (DEFAULT_MAX_FRAME, (1 << 24) - 1, ErrorCode.PROTOCOL_ERROR),
    Setting.ENABLE_CONNECT_PROTOCOL: (0, 1, ErrorCode.PROTOCOL_ERROR),
}


def read_settings(payload: bytes) -> list[tuple[int, int]]:
    """Return the identifiers and values of a SETTINGS frame, in order, unknown ones too.

    Raises:
        ConnectionFault: a value is none that the setting may have.
    """
    if len(payload) % _SETTING.size:
        raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "half a setting")
    values = list(_SETTING.iter_unpack(payload))
    for identifier, value in values:
        _check(identifier, value)
    return values


def write_settings(values: Iterable[tuple[int, int]]) -> bytes:
    """Return the payload of a SETTINGS frame with ``values`` in order."""
    return b"".join(_SETTING.pack(*each) for each in values)


def _check(identifier: int, value: int) -> None:
    lowest, highest, code = _SETTING_VALUES.get(identifier, _ANY_VALUE)
    if not lowest <= value <= highest:
        raise ConnectionFault(code, f"setting {identifier} of {value}")
