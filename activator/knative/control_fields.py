"""Header fields that Knative's parts send each other: names in lower case, and lines to pods.

Constants only. Sources: Knative pkg/networking/constants.go and pkg/activator/activator.go;
knative.dev/networking pkg/http/header.
"""

from __future__ import annotations

from typing import Final

#: The revision of a request; the ingress sets both.
NAMESPACE: Final = b"knative-serving-namespace"
REVISION: Final = b"knative-serving-revision"

KUBELET_PROBE: Final = b"k-kubelet-probe"
NETWORK_PROBE: Final = b"k-network-probe"
NETWORK_HASH: Final = b"k-network-hash"
#: The client's Host, if the ingress or the activator has rewritten it.
ORIGINAL_HOST: Final = b"k-original-host"
PROXY_REQUEST: Final = b"k-proxy-request"

#: The control fields of a request that the activator reads, removes or rewrites. K-Passthrough-Lb
#: is not one of them. The activator adds its own line to a client's, as Knative's does.
OWN: Final[tuple[bytes, ...]] = (
    NAMESPACE,
    REVISION,
    KUBELET_PROBE,
    NETWORK_PROBE,
    NETWORK_HASH,
    ORIGINAL_HOST,
    PROXY_REQUEST,
)
#: Control fields whose values occur again in other requests; none of them is secret.
RECURRING: Final[tuple[bytes, ...]] = (NAMESPACE, REVISION, NETWORK_PROBE, ORIGINAL_HOST)
#: Prefixes of fields that a client's Connection field does not remove.
PREFIXES: Final[tuple[bytes, ...]] = (b"k-", b"knative-")

#: The start of a line, and whole lines of requests to pods, as Knative's activator spells them.
ORIGINAL_HOST_START: Final = b"K-Original-Host: "
PASSTHROUGH_LINE: Final = b"K-Passthrough-Lb: true\r\n"
PROXY_LINE: Final = b"K-Proxy-Request: activator\r\n"
#: The start of a line of the response to an ingress's probe.
NETWORK_HASH_START: Final = b"K-Network-Hash: "
