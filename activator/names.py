"""Names of objects that follow from the names of others.

Knows text alone. Knative's counterpart: knative.dev/pkg/kmeta/names.go.
"""

from __future__ import annotations

import hashlib

#: A DNS label's longest (RFC 1123 section 2.1).
_LONGEST = 63


def private_service(revision: str) -> str:
    """Return the name of a revision's private Service, which leads to its pods alone.

    A name that would be too long ends in a hash instead: the first 23 characters of the
    revision's name, the MD5 of all of it, the suffix.
    """
    return _child(revision, "-private")


def _child(parent: str, suffix: str) -> str:
    if len(parent) + len(suffix) <= _LONGEST:
        return parent + suffix
    digest = hashlib.md5(parent.encode(), usedforsecurity=False).hexdigest()
    return parent[: _LONGEST - len(digest) - len(suffix)] + digest + suffix
