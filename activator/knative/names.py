"""Names of Knative's objects, and of versions of HTTP.

Pure. Knative's counterpart: knative.dev/pkg/kmeta/names.go.
"""

from __future__ import annotations

import hashlib
from typing import Final

#: Most characters of a DNS label (RFC 1123 section 2.1).
_LONGEST = 63
_PRIVATE = "-private"

#: The Secret with the certificate of internal encryption.
CERTIFICATE_SECRET: Final = "routing-serving-certs"
#: A name in the certificate of each pod, and the server name of a handshake with a pod.
DATA_PLANE: Final = "data-plane.knative.dev"
#: The OpenTelemetry scope of the activator's own metrics.
METRIC_SCOPE: Final = "knative.dev/serving/pkg/activator"


def private_service(revision: str) -> str:
    """Return the name of a revision's private Service, whose endpoints are only its pods.

    A long name is shortened: the first 23 characters of the revision's name, the MD5 of the whole
    name, the suffix.
    """
    return _child(revision, _PRIVATE)


def names_private_service(name: str) -> bool:
    """Return whether a Service of this name may be a private Service."""
    return name.endswith(_PRIVATE)


def http_version(minor: int) -> str:
    """Return the version of HTTP as telemetry names it.

    Arguments:
        minor: minor version of HTTP/1; 2 stands for HTTP/2.
    """
    return "2" if minor == 2 else f"1.{minor}"


def _child(parent: str, suffix: str) -> str:
    if len(parent) + len(suffix) <= _LONGEST:
        return parent + suffix
    digest = hashlib.md5(parent.encode(), usedforsecurity=False).hexdigest()
    return parent[: _LONGEST - len(digest) - len(suffix)] + digest + suffix
