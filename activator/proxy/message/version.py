"""The versions of HTTP that peers speak here."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class Version(IntEnum):
    """A version of HTTP. Metrics count by its number.

    HTTP/1.2 to HTTP/1.9 are read as HTTP/1.1 (RFC 9110 section 2.5).
    """

    HTTP_1_0 = 0
    HTTP_1_1 = 1
    HTTP_2 = 2


#: The same as plain names: Python looks a member of an enum up by a function of its class.
HTTP_1_0: Final = Version.HTTP_1_0
HTTP_1_1: Final = Version.HTTP_1_1
HTTP_2: Final = Version.HTTP_2
