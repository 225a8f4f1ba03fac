"""The words of the KEDA HTTP add-on in requests, responses and the names of limits. Pure.

Source: KEDA HTTP add-on, pkg/http/headers.go, interceptor/handler and interceptor/middleware.
"""

from __future__ import annotations

from typing import Final

#: The field of a response: whether its request had to wait for a pod to start.
COLD_START_LINE: Final = b"\r\nX-KEDA-HTTP-Cold-Start: %b"
#: The fields of a request that name its object, for the pod.
REF_LINES: Final = (
    b"\r\nX-KEDA-HTTP-Cold-Start-Ref-Name: %b\r\nX-KEDA-HTTP-Cold-Start-Ref-Namespace: %b"
)
#: Fields of the client that a pod does not get.
REMOVED: Final = (
    b"forwarded",
    b"x-keda-http-cold-start-ref-name",
    b"x-keda-http-cold-start-ref-namespace",
)
#: The statuses whose text is the phrase of the status.
PHRASES: Final = (404, 500, 502, 504)
TOO_MANY: Final = b"too many pending requests\n"
#: The texts of responses to probes.
OK: Final = b"OK"
UNAVAILABLE: Final = b"Service Unavailable"
#: The paths that kubelet probes. The first one is good as long as the process runs.
LIVE: Final = b"/livez"
READY: Final = b"/readyz"
#: The beginnings of User-Agent of programs that probe, in addition to kubelet's.
PROBERS: Final = (b"GoogleHC/", b"ELB-HealthChecker/")
#: The names of limits: until a pod is ready, by kind of object; until the fallback is; of the whole
#: request; until the head of the response; of waiting requests.
READINESS: Final = {
    "HTTPScaledObject": "timeouts.conditionWait",
    "InterceptorRoute": "timeouts.readiness",
}
FALLBACK: Final = "time for the fallback"
REQUEST: Final = "timeouts.request"
RESPONSE_HEADER: Final = "timeouts.responseHeader"
MAX_PENDING: Final = "coldStart.maxPendingRequests"
#: Media types by extension, as in an image without a file of types (Go: mime/type.go).
TYPES: Final = {
    "css": b"text/css; charset=utf-8",
    "gif": b"image/gif",
    "htm": b"text/html; charset=utf-8",
    "html": b"text/html; charset=utf-8",
    "jpeg": b"image/jpeg",
    "jpg": b"image/jpeg",
    "js": b"text/javascript; charset=utf-8",
    "json": b"application/json",
    "mjs": b"text/javascript; charset=utf-8",
    "svg": b"image/svg+xml",
    "xml": b"text/xml; charset=utf-8",
}
#: The key of a body for the path ``/``.
INDEX: Final = "index.html"
#: The add-on's variables that are no setting: the first two give defaults, the others do nothing.
OTHER_VARIABLES: Final = tuple(
    f"KEDA_HTTP_{name}"
    for name in (
        *("CURRENT_NAMESPACE", "SCALER_TARGET_ADMIN_SERVICE", "SCALER_TARGET_ADMIN_DEPLOYMENT"),
        *("SCALER_CONFIG_MAP_INFORMER_RSYNC_PERIOD", "SCALER_STREAM_INTERVAL_MS", "KEEP_ALIVE"),
        *("ENDPOINTS_CACHE_POLLING_INTERVAL_MS", "DIRECT_POD_ROUTING", "FORCE_HTTP2"),
        *("IDLE_CONN_TIMEOUT", "TLS_HANDSHAKE_TIMEOUT", "EXPECT_CONTINUE_TIMEOUT"),
        *("DISABLE_KEEP_ALIVES", "DIAL_RETRY_TIMEOUT"),
    )
)
