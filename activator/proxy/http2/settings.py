"""Reads and writes the settings of an HTTP/2 connection (RFC 9113 section 6.5)."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final

from activator.proxy.http2.errors import ConnectionFault, ErrorCode
from activator.proxy.http2.frames import DEFAULT_MAX_FRAME, MAX_31_BITS

_SETTING: Final = struct.Struct(">HL")


class Setting(IntEnum):
    """The settings of RFC 9113 section 6.5.2 and RFC 8441 section 3."""

    HEADER_TABLE_SIZE = 1
    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5
    MAX_HEADER_LIST_SIZE = 6
    ENABLE_CONNECT_PROTOCOL = 8


_ANY_VALUE: Final = (0, (1 << 32) - 1, ErrorCode.PROTOCOL_ERROR)
#: The range of a setting's values, and the error for other values (section 6.5.2).
_SETTING_VALUES: Final[Mapping[int, tuple[int, int, ErrorCode]]] = {
    Setting.ENABLE_PUSH: (0, 1, ErrorCode.PROTOCOL_ERROR),
    Setting.INITIAL_WINDOW_SIZE: (0, MAX_31_BITS, ErrorCode.FLOW_CONTROL_ERROR),
    Setting.MAX_FRAME_SIZE: (DEFAULT_MAX_FRAME, (1 << 24) - 1, ErrorCode.PROTOCOL_ERROR),
    Setting.ENABLE_CONNECT_PROTOCOL: (0, 1, ErrorCode.PROTOCOL_ERROR),
}


def read_settings(payload: bytes) -> list[tuple[int, int]]:
    """Return the identifiers and values of a SETTINGS frame in order, also unknown ones.

    Raises:
        ConnectionFault: a value is out of range, or the payload is malformed.
    """
    if len(payload) % _SETTING.size:
        raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "an incomplete setting")
    values = list(_SETTING.iter_unpack(payload))
    for identifier, value in values:
        _check(identifier, value)
    return values


def write_settings(values: Iterable[tuple[int, int]]) -> bytes:
    """Return the payload of a SETTINGS frame with these identifiers and values, in order."""
    return b"".join(_SETTING.pack(*each) for each in values)


def _check(identifier: int, value: int) -> None:
    lowest, highest, code = _SETTING_VALUES.get(identifier, _ANY_VALUE)
    if not lowest <= value <= highest:
        raise ConnectionFault(code, f"setting {identifier} of {value}")
