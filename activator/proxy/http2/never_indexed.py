"""Marks a header field that no table may have (RFC 7541 section 7.1.3).

The class derives from ``tuple``, so it has a module of its own, which is never compiled.
"""

from __future__ import annotations


class NeverIndexed(tuple[bytes, bytes]):
    """A field whose sender forbids tables. The next hop gets it with the same mark.

    It equals a plain pair of the same values, but no dict finds it. So no dict of lines keeps it.
    """

    __slots__ = ()
    __hash__ = object.__hash__
