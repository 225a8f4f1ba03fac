"""The mark of a header field that no table may hold (RFC 7541 section 7.1.3).

The class derives from ``tuple``, so it has a module of its own, which is never compiled.
"""

from __future__ import annotations


class NeverIndexed(tuple[bytes, bytes]):
    """A field that its sender wants in no table, and that must be passed on so (section 7.1.3).

    Equal to the pair that it is, but never found in a dict: no memo holds it.
    """

    __slots__ = ()
    __hash__ = object.__hash__
