"""Defines the versions of HTTP that the activator supports."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class Version(IntEnum):
    """A version of HTTP. Its number is the value of a label in metrics.

    The activator treats HTTP/1.2 to HTTP/1.9 as HTTP/1.1 (RFC 9110 section 2.5).
    """

    HTTP_1_0 = 0
    HTTP_1_1 = 1
    HTTP_2 = 2


#: Module names for the members, for speed: Python calls a function to look up ``Version.HTTP_2``.
HTTP_1_0: Final = Version.HTTP_1_0
HTTP_1_1: Final = Version.HTTP_1_1
HTTP_2: Final = Version.HTTP_2
