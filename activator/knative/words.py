"""Words of Knative: header fields, labels, names of objects, probes, and texts of responses."""

from __future__ import annotations

import hashlib
import html
from typing import Final

from activator.objects.fields import DEFAULT_NAMESPACE, Field
from throttler.model import ProbeKind, ProbeSpec, RevisionID

# Header fields that Knative's parts send each other: names in lower case, and lines to pods.
#
# Sources: Knative pkg/networking/constants.go and pkg/activator/activator.go;
# knative.dev/networking pkg/http/header.

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


# Labels, annotations and API groups of Knative's objects, and the kind of object that they mark.
#
# Sources: Knative pkg/apis/serving/register.go, pkg/networking/constants.go and
# knative.dev/networking's pkg/apis/networking/register.go.

#: The API group of Revisions, and the path under which an API server lists them.
SERVING_GROUP: Final = "serving.knative.dev"
REVISIONS_PATH: Final = f"/apis/{SERVING_GROUP}/v1/revisions"

#: On Endpoints and EndpointSlices.
SERVICE_TYPE_LABEL: Final = "networking.internal.knative.dev/serviceType"
REVISION_LABEL: Final = "serving.knative.dev/revision"
REVISION_UID_LABEL: Final = "serving.knative.dev/revisionUID"

#: On Revisions.
SERVICE_LABEL: Final = "serving.knative.dev/service"
CONFIGURATION_LABEL: Final = "serving.knative.dev/configuration"
FULL_DUPLEX_ANNOTATION: Final = "features.knative.dev/http-full-duplex"

#: On ConfigMaps that contain certificates to trust.
TRUST_BUNDLE_LABEL: Final = "networking.knative.dev/trust-bundle"


def is_private(obj: Field) -> bool:
    """Return whether an object lists the pods of a revision."""
    labels = obj["metadata"]["labels"].mapping()
    return labels.get(SERVICE_TYPE_LABEL) == "Private" and REVISION_UID_LABEL in labels


def is_public(obj: Field) -> bool:
    """Return whether an object lists the addresses of a revision's public Service."""
    return obj["metadata"]["labels"].mapping().get(SERVICE_TYPE_LABEL) == "Public"


def revision_of(obj: Field) -> RevisionID:
    """Return the revision that the label of an object names.

    Raises:
        ManifestError: the label is missing, or its value is no name.
    """
    metadata = obj["metadata"]
    namespace = metadata["namespace"]
    return RevisionID(
        DEFAULT_NAMESPACE if namespace.value is None else namespace.name(),
        metadata["labels"].at(REVISION_LABEL).name(),
    )


# Names of Knative's objects, and of versions of HTTP.
#
# Knative's counterpart: knative.dev/pkg/kmeta/names.go.

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
    if len(revision) + len(_PRIVATE) <= _LONGEST:
        return revision + _PRIVATE
    digest = hashlib.md5(revision.encode(), usedforsecurity=False).hexdigest()
    return revision[: _LONGEST - len(digest) - len(_PRIVATE)] + digest + _PRIVATE


def names_private_service(name: str) -> bool:
    """Return whether a Service of this name may be a private Service."""
    return name.endswith(_PRIVATE)


def http_version(minor: int) -> str:
    """Return the version of HTTP as telemetry names it.

    Arguments:
        minor: minor version of HTTP/1; 2 stands for HTTP/2.
    """
    return "2" if minor == 2 else f"1.{minor}"


# Words of Knative's probes: the activator's probe of a pod, and the probes that it receives.
#
# Sources: Knative pkg/activator/net/revision_backends.go, pkg/queue/health, pkg/activator/handler
# (healthz, probe); knative.dev/networking pkg/http/header.

#: The probe of queue-proxy, which responds 200 ``queue`` once its application is ready.
QUEUE_PROXY: Final = ProbeSpec(
    kind=ProbeKind.HTTP,
    path=b"/healthz",
    fields=b"User-Agent: Knative-Activator-Probe\r\nK-Network-Probe: queue\r\n",
    least_status=200,
    most_status=200,
    body=b"queue",
    interval=0.025,  # queue-proxy checks the application for each probe
)

#: Values of K-Network-Probe in probes of the activator: by the ingress, and by the autoscaler.
INGRESS: Final = b"probe"
AUTOSCALER: Final = b"activator"
#: The body of the response to the autoscaler's probe.
AUTOSCALER_BODY: Final = b"activator"

#: A part of the User-Agent of kubelet's probes.
KUBELET_AGENT: Final = b"kube-probe/"


# Bodies of the activator's own responses, in Knative's words.
#
# Texts only; ``proxy.message.own_responses`` adds status, fields and line end. Source: Knative
# pkg/activator/handler (probe, context, activation), pkg/http/handler (timeout) and
# knative.dev/networking pkg/http/probe.

#: Most bytes of a probe's value that a response repeats.
_ECHO: Final = 200

QUEUE_FULL: Final = "pending request queue full"
TIMED_OUT: Final = "activator request timeout"
MISSING_HASH: Final = 'a probe request must contain a non-empty "K-Network-Hash" header'
#: The advice for a request that names no revision, in the detail of Activator-Reason. It is not
#: Knative's.
NAME_IT: Final = (
    "give Knative-Serving-Namespace and Knative-Serving-Revision, Activator-Service, "
    "or a host of a Service, such as NAME.NAMESPACE.svc.DOMAIN"
)


def not_found(name: str) -> str:
    """Return the text of a 404 for a revision of this name."""
    return f'Error getting active endpoint: revision.serving.knative.dev "{name}" not found'


def unexpected_probe(value: bytes) -> str:
    """Return the text for an unknown value of K-Network-Probe: escaped as HTML, quoted as by Go."""
    text = html.escape(value[:_ECHO].decode("utf-8", "surrogateescape"))
    text = text.replace("&#x27;", "&#39;").replace("&quot;", "&#34;")
    return f'unexpected probe header value: "{"".join(map(_quoted, text))}"'


def _quoted(char: str) -> str:
    """Return one character as Go's %q writes it; quotes are escaped as HTML before."""
    if char == "\\":
        return "\\\\"
    if char == "\t":
        return "\\t"
    if 0xDC80 <= ord(char) <= 0xDCFF:
        return f"\\x{ord(char) & 0xFF:02x}"  # a byte that is no UTF-8
    if char.isprintable():
        return char
    return f"\\u{ord(char):04x}" if char <= "\uffff" else f"\\U{ord(char):08x}"
