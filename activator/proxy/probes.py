"""Requests that are answered before any revision is asked for: probes, and what contradicts itself.

In the order of Knative's handler chain (cmd/activator/main.go): kubelet's probe, ingress's probe,
activator's probe. Any method, any path, any port.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from activator.proxy import replies
from activator.proxy.request import Request

_KUBELET = re.compile(rb"\r\n[Uu](?i:ser-agent):[ \t]*kube-probe/")


def probe_reply(request: Request, unhealthy: Callable[[], str]) -> replies.Reply | None:
    """Return the answer to a probe of kubelet, ingress or autoscaler; None for other requests.

    Arguments:
        unhealthy: says why we are not ready, or nothing.
    """
    fields = request.fields
    if fields.get(b"k-kubelet-probe") or (
        b"kube-probe/" in request.block and _KUBELET.search(request.block)
    ):
        why = unhealthy()
        return replies.unhealthy(why) if why else replies.HEALTHY
    probe = fields.get(b"k-network-probe", b"").rstrip(b" \t")
    if not probe:
        return _conflict(fields)
    if probe == b"probe":
        return replies.network_probe(fields.get(b"k-network-hash", b"").rstrip(b" \t"))
    if probe == b"activator":
        return replies.ACTIVATOR_PROBE
    return replies.unexpected_probe(probe)


def _conflict(fields: dict[bytes, bytes]) -> replies.Reply | None:
    """Refuse two revisions in one request: an ingress appended, a client had its own."""
    for name in (b"knative-serving-revision", b"knative-serving-namespace"):
        if b"," in (value := fields.get(name, b"")):
            first, *others = [part.strip(b" \t") for part in value.split(b",")]
            if any(other != first for other in others):
                return replies.refused(400, f"{name.decode()} is given twice and differs")
            fields[name] = first
    return None
