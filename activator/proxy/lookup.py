"""Which revision a request is for.

By the two control headers, which the ingress sets, else by the host. Knative's counterpart:
pkg/activator/handler/context_handler.go.
"""

from __future__ import annotations

from activator.driver import Driver, Entry
from activator.proxy.request import Request


def find(driver: Driver, request: Request) -> Entry:
    """Return what belongs to the revision that a request names.

    Raises:
        RevisionNotFound: it names none, or none that exists.
    """
    fields = request.fields
    namespace = fields.get(b"knative-serving-namespace", b"")
    name = fields.get(b"knative-serving-revision", b"")
    if namespace and name:
        return driver.find(namespace.rstrip(b" \t"), name.rstrip(b" \t"))
    return driver.find_host(request.host, name)


def contradiction(fields: dict[bytes, bytes]) -> str:
    """Return what is wrong where a request names two revisions: an ingress appended one, and a
    client had its own. A name that is only repeated is made one; empty if nothing is wrong."""
    for name in (b"knative-serving-revision", b"knative-serving-namespace"):
        if b"," in (value := fields.get(name, b"")):
            first, *others = [part.strip(b" \t") for part in value.split(b",")]
            if any(other != first for other in others):
                return f"{name.decode()} is given twice and differs"
            fields[name] = first
    return ""
