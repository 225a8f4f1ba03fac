"""Header fields that Knative's parts send each other: names in lower case, and lines to pods.

Bytes alone. Sources: Knative pkg/networking/constants.go and pkg/activator/activator.go;
knative.dev/networking pkg/http/header.
"""

from __future__ import annotations

from typing import Final

#: Which revision a request is for; set by the ingress.
NAMESPACE: Final = b"knative-serving-namespace"
REVISION: Final = b"knative-serving-revision"

KUBELET_PROBE: Final = b"k-kubelet-probe"
NETWORK_PROBE: Final = b"k-network-probe"
NETWORK_HASH: Final = b"k-network-hash"
#: The Host of the client, where the ingress or the activator has rewritten it.
ORIGINAL_HOST: Final = b"k-original-host"
PROXY_REQUEST: Final = b"k-proxy-request"

#: The control fields of a request that are read, removed or rewritten. K-Passthrough-Lb is not
#: one of them: the activator adds its own to a client's, as Knative's does.
OWN: Final[tuple[bytes, ...]] = (
    NAMESPACE,
    REVISION,
    KUBELET_PROBE,
    NETWORK_PROBE,
    NETWORK_HASH,
    ORIGINAL_HOST,
    PROXY_REQUEST,
)
#: Those whose values occur again in other requests; none of them is secret.
RECURRING: Final[tuple[bytes, ...]] = (NAMESPACE, REVISION, NETWORK_PROBE, ORIGINAL_HOST)
#: A client's Connection field removes no field whose name begins so.
PREFIXES: Final[tuple[bytes, ...]] = (b"k-", b"knative-")

#: The start of a line, and whole lines of requests to pods, as Knative's activator spells them.
ORIGINAL_HOST_START: Final = b"K-Original-Host: "
PASSTHROUGH_LINE: Final = b"K-Passthrough-Lb: true\r\n"
PROXY_LINE: Final = b"K-Proxy-Request: activator\r\n"
#: The start of a line of the response to an ingress's probe.
NETWORK_HASH_START: Final = b"K-Network-Hash: "
