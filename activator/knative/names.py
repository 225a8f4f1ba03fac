"""Names of Knative's objects, and of versions of HTTP.

Knows text alone. Knative's counterpart: knative.dev/pkg/kmeta/names.go.
"""

from __future__ import annotations

import hashlib
from typing import Final

#: A DNS label's longest (RFC 1123 section 2.1).
_LONGEST = 63
_PRIVATE = "-private"

#: The Secret with the certificate of internal encryption.
CERTIFICATE_SECRET: Final = "routing-serving-certs"
#: A name in the certificate of each pod, and the name that a handshake with a pod asks for.
DATA_PLANE: Final = "data-plane.knative.dev"
#: OpenTelemetry's scope of the activator's own metrics.
METRIC_SCOPE: Final = "knative.dev/serving/pkg/activator"


def private_service(revision: str) -> str:
    """Return the name of a revision's private Service, which leads to its pods alone.

    A name that would be too long ends in a hash instead: the first 23 characters of the
    revision's name, the MD5 of all of it, the suffix.
    """
    return _child(revision, _PRIVATE)


def names_private_service(name: str) -> bool:
    """Return whether a Service of this name may be the private one of a revision."""
    return name.endswith(_PRIVATE)


def http_version(minor: int) -> str:
    """Return a version as telemetry names it: ``1.0``, ``1.1``, and ``2`` for what counts as the
    minor version 2 of HTTP/1."""
    return "2" if minor == 2 else f"1.{minor}"


def _child(parent: str, suffix: str) -> str:
    if len(parent) + len(suffix) <= _LONGEST:
        return parent + suffix
    digest = hashlib.md5(parent.encode(), usedforsecurity=False).hexdigest()
    return parent[: _LONGEST - len(digest) - len(suffix)] + digest + suffix
