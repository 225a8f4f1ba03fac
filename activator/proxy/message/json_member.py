"""Finds a member of a JSON object in the beginning of a body, which may be cut anywhere. Pure.

It reads tokens, so that no text inside a string can look like a member (RFC 8259). It converts no
value, and does not check the whole grammar: the pod does that. Knative has no counterpart.
"""

from __future__ import annotations

import json
import re
from typing import Final

#: Bytes of a body that are read.
MOST_BYTES: Final = 64 << 10
#: Tokens that are read. A usual body of 64 KiB has a tenth of them. Without this limit, a body of
#: brackets alone would cost ten times as much as a usual one.
MOST_TOKENS: Final = 8192

#: A string, a bracket, a colon, a comma, another value, or the quote of a string without its end.
#: Only sets of bytes are possessive, see body.py.
_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*"|[{}\[\]:,]|[^\s"{}\[\]:,]++|"', re.DOTALL)
_BOM: Final = b"\xef\xbb\xbf"
_OPENING: Final = (b"{", b"[")
_CLOSING: Final = (b"}", b"]")
#: The longest name that is compared, with an escape of six bytes for each character.
_LONGEST: Final = 128


def is_true(body: bytes, name: str) -> bool:
    """Return whether the JSON object in a body has a member with the value ``true``.

    Only members of the outermost object count. If one occurs twice, the last one counts, as in most
    parsers. Whatever follows the object does not matter.

    Arguments:
        body: the body from its start, as much as has arrived.
        name: the name of the member, at most 20 characters.
    """
    body = body[:MOST_BYTES].removeprefix(_BOM)
    depth, found, tokens = 0, False, 0
    key: bytes | None = None  # the name of the current member; None behind its colon
    is_named = False  # whether the next value is that of the named member
    for match in _TOKEN.finditer(body):
        token = match[0]
        tokens += 1
        if tokens > MOST_TOKENS or (not depth and token != b"{"):
            return False
        if token == b'"':
            return found  # the body ends inside a string
        if token in _OPENING:
            depth += 1
            if depth == 1:
                key = b""
            elif depth == 2 and is_named:
                found = is_named = False
        elif token in _CLOSING:
            depth -= 1
            if not depth:
                return found
        elif depth > 1:
            continue
        elif token == b",":
            key, is_named = b"", False
        elif token == b":":
            is_named = key is not None and _text(key) == name
            key = None
        elif is_named:
            found, is_named = token == b"true", False
        elif key is not None:
            key = token
    return found


def _text(token: bytes) -> str | None:
    """Return the text of a string; None if it is too long, or not well-formed."""
    if token[:1] != b'"' or len(token) > _LONGEST:
        return None
    try:
        text = json.loads(token)
    except ValueError:
        return None
    return text if isinstance(text, str) else None
