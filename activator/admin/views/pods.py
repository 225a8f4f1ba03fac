"""Define the fields of a pod, and of the activator's probe."""

from __future__ import annotations

from typing import Annotated, TypedDict

from activator.admin.views.fields import says
from throttler.model import ProbeKind
from throttler.pod import PodState
from throttler.pod_rule import PodDecision, PodRule


class PodView(TypedDict):
    """A pod, or the ClusterIP."""

    address: Annotated[str, says("address of the pod, `ip:port`")]
    uid: Annotated[str, says("uid of the pod; empty if the Endpoints object has none")]
    kubernetes: Annotated[
        str,
        says(
            "state in the Endpoints object; `gone` if no object lists the pod, `service` for a "
            "ClusterIP",
            ("ready", "not-ready", "gone", "service"),
        ),
    ]
    probe: Annotated[
        str,
        says(
            "result of the last probe, or of the last connection for a request",
            ("passed", "failed", "unknown"),
        ),
    ]
    probeStatus: Annotated[
        int | None,
        says("HTTP status of the last probe; `null` without one, as for TCP and gRPC"),
    ]
    lastProbeSecondsAgo: Annotated[
        float | None,
        says("time since the last result of a probe; `null` before the first"),
    ]
    state: Annotated[
        str, says("state in the life of the pod; only healthy pods get requests", PodState)
    ]
    stateSecondsAgo: Annotated[float | None, says("time since the pod entered that state")]
    usable: Annotated[
        bool,
        says(
            "whether the pod gets requests: it is healthy, reachable, and listed as ready if its "
            "revision requires that"
        ),
    ]
    decision: Annotated[
        str,
        says("the decision: `use` it, `wait` until it is usable, or `leave` it alone", PodDecision),
    ]
    decidedBy: Annotated[str, says("[the rule](#the-rules) that decided", PodRule)]
    explanation: Annotated[str, says("the decision as a sentence, for people")]
    inFlight: Annotated[int, says("requests of this activator that the pod has in flight")]
    silentSeconds: Annotated[
        float | None,
        says(
            "time for which the pod has had requests and begun no response; `null` below 5 s, and "
            "without requests. A response that began earlier may continue"
        ),
    ]
    limit: Annotated[
        int | None, says("maximum of concurrent requests of the pod; `null` is no limit")
    ]
    adaptiveLimit: Annotated[
        int | None,
        says(
            "limit that its response times give, applied only if `adaptiveConcurrency` is `on`; "
            "`null` if that is `off`"
        ),
    ]
    lastError: Annotated[
        str | None,
        says(
            "error of the last failed probe or connection, or the error response that ejected the "
            "pod; `null` if none"
        ),
    ]
    inSlice: Annotated[bool, says("whether the pod is usable and in this activator's own share")]


class ProbeView(TypedDict):
    """The activator's probe of a pod."""

    kind: Annotated[str, says("protocol of the probe; `none` if pods are not probed", ProbeKind)]
    target: Annotated[
        str | None,
        says("request target of an HTTP probe, or service of a gRPC probe; `null` for none"),
    ]
    host: Annotated[str | None, says("field Host of an HTTP probe; `null` for the pod's address")]
    tls: Annotated[bool, says("whether the probe goes over TLS; certificates are not verified")]
    timeoutSeconds: Annotated[
        float | None, says("time-out at first; `null` for the setting `--probe-timeout`")
    ]
    why: Annotated[str | None, says("why this probe was chosen, for people; `null` for a Revision")]
