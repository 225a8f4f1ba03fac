"""Define the fields of pods, cold starts, queues, wake rules and waiting clients."""

from __future__ import annotations

from typing import Annotated, TypedDict

from activator.records.counters import OUTCOMES
from throttler.model import ProbeKind
from throttler.pod import PodState
from throttler.pod_rule import PodDecision, PodRule
from throttler.request_policies import NAMES, Profile, WaitMode


class PodView(TypedDict):
    """A pod, or the ClusterIP."""

    address: Annotated[str, "address of the pod, `ip:port`"]
    uid: Annotated[str, "uid of the pod; empty if the Endpoints object has none"]
    kubernetes: Annotated[
        str,
        "state in the Endpoints object; `gone` if none lists the pod, `service` for a ClusterIP",
        ("ready", "not-ready", "gone", "service"),
    ]
    probe: Annotated[
        str,
        "result of the last probe, or of the last connection for a request",
        ("passed", "failed", "unknown"),
    ]
    probeStatus: Annotated[int | None, "HTTP status of the last probe; `null` without one"]
    lastProbeSecondsAgo: Annotated[float | None, "time since its result; `null` before the first"]
    state: Annotated[str, "state in the life of the pod; only healthy pods get requests", PodState]
    stateSecondsAgo: Annotated[float | None, "time since the pod entered that state"]
    usable: Annotated[
        bool,
        "whether the pod gets requests: healthy, reachable, and listed as ready where that counts",
    ]
    decision: Annotated[
        str, "`use` it, `wait` until it is usable, or `leave` it alone", PodDecision
    ]
    decidedBy: Annotated[str, "[the rule](#the-rules) that decided", PodRule]
    explanation: Annotated[str, "the same as a sentence, for people"]
    inFlight: Annotated[int, "requests of this activator in flight at the pod"]
    silentSeconds: Annotated[
        float | None,
        "time for which the pod has had requests and begun no response; `null` below 5 s",
    ]
    limit: Annotated[int | None, "maximum of concurrent requests of the pod; `null` is no limit"]
    adaptiveLimit: Annotated[
        int | None,
        "limit by its response times, applied only if `adaptiveConcurrency` is `on`; `null` if "
        "that is `off`",
    ]
    lastError: Annotated[
        str | None,
        "error of the last failed probe or connection, or the error response that ejected the "
        "pod; `null` for none",
    ]
    zone: Annotated[str | None, "zone of the pod, by its EndpointSlice; `null` if unknown"]
    near: Annotated[bool | None, "whether that is the activator's own; `null` if unknown"]
    inSlice: Annotated[bool, "whether it is usable and in this activator's own share"]


class InterceptorView(TypedDict):
    """What an HTTPScaledObject or an InterceptorRoute of the KEDA HTTP add-on asks for."""

    object: Annotated[str, "`HTTPScaledObject` or `InterceptorRoute`"]
    target: Annotated[str, "the Service and its port that requests reach"]
    problem: Annotated[str | None, "why no pod can be found; `null` if pods can"]
    readinessSeconds: Annotated[
        float | None, "how long a request waits for a pod; `null` for no limit"
    ]
    requestSeconds: Annotated[
        float | None, "seconds from arrival to the end of the response; `null` for no limit"
    ]
    fallback: Annotated[bool, "whether requests go to a fallback after `readinessSeconds`"]
    placeholderStatus: Annotated[
        int | None, "status of the response while no pod is usable; `null` if requests wait"
    ]
    maxPendingRequests: Annotated[int | None, "limit of waiting requests; `null` for none"]
    overflow: Annotated[bool, "whether requests wait up to that limit in spite of a placeholder"]
    staticRoutes: Annotated[int, "number of its static routes"]


class ProbeView(TypedDict):
    """The activator's probe of a pod."""

    kind: Annotated[str, "protocol of the probe; `none` if pods are not probed", ProbeKind]
    target: Annotated[
        str | None, "target of an HTTP probe, or service of a gRPC probe; `null` for none"
    ]
    host: Annotated[str | None, "field Host of an HTTP probe; `null` for the pod's address"]
    tls: Annotated[bool, "whether the probe goes over TLS; certificates are not verified"]
    timeoutSeconds: Annotated[
        float | None, "time-out at first; `null` for the setting `--probe-timeout`"
    ]
    why: Annotated[str | None, "why this probe was chosen, for people; `null` for a Revision"]


#: Its names are no identifiers, so it is made by a call.
PhasesView = TypedDict(
    "PhasesView",
    {
        "stat-sent": Annotated[
            float, "the activator sent a report on the revision to the autoscaler"
        ],
        "address": Annotated[float, "Kubernetes listed a new pod"],
        "probe": Annotated[float, "the activator sent the first probe"],
        "probe-passed": Annotated[float, "a probe succeeded"],
        "dispatched": Annotated[float, "the request with the first response went to its pod"],
        "first-byte": Annotated[float, "the first byte of that response came"],
    },
    total=False,
)


class ColdStartView(TypedDict):
    """A cold start, from the first request that waited to the first response."""

    began: Annotated[
        str,
        "when a request first waited while no pod was usable, and none had just been; UTC, RFC "
        "3339",
    ]
    outcome: Annotated[
        str | None,
        "`served`, or how the last request that waited ended; `null` until then",
        (*OUTCOMES, None),
    ]
    seconds: Annotated[float | None, "duration; `null` until the end"]
    requests: Annotated[int, "number of requests that waited"]
    pod: Annotated[str | None, "address of the pod with the first response; `null` until then"]
    phases: Annotated[PhasesView, "seconds from the beginning to each phase; see below"]
    probeAheadSeconds: Annotated[
        float | None,
        "time for which it was usable before Kubernetes listed it as ready; `null` if unknown, or "
        "if Kubernetes was first",
    ]
    why: Annotated[
        str | None, "if it failed, why requests waited, as in `Activator-Reason`; else `null`"
    ]


class ClassesView(TypedDict):
    """Queued requests by the class in which they arrived."""

    high: Annotated[int, "requests of class high"]
    normal: Annotated[int, "requests of class normal"]
    low: Annotated[int, "requests of class low"]


class FlowView(TypedDict):
    """A flow with queued requests."""

    flow: Annotated[
        str,
        "hash of its name; the name with `activator.dev/fair-names`, up to 64 bytes that can be "
        "printed",
    ]
    queued: Annotated[int, "number of its queued requests"]


class QueueOrderView(TypedDict):
    """How the queue orders requests, by annotations."""

    priority: Annotated[
        str | None,
        "class of a request that selects none; `null` if requests have no classes",
        (*NAMES, None),
    ]
    trustsHeader: Annotated[bool, "whether a request may select its class by `Activator-Priority`"]
    queuedByClass: Annotated[ClassesView | None, "queued requests by class; `null` without classes"]
    fairBy: Annotated[str | None, "part of a request that names its flow; `null` without flows"]
    flows: Annotated[int, "number of flows with queued requests"]
    largestFlows: Annotated[
        list[FlowView], "the five flows with the most queued requests, largest first"
    ]


class WakeRulesView(TypedDict):
    """Which requests may start a pod, by annotations; each rule must allow a request."""

    methods: Annotated[list[str], "the methods that may; empty for all"]
    notUserAgents: Annotated[
        list[str], "texts in a User-Agent that may not, in lower case; empty for none"
    ]
    notPaths: Annotated[list[str], "beginnings of paths that may not; empty for none"]
    requiredHeader: Annotated[str | None, "header that a request must have; `null` for none"]
    asleepStatus: Annotated[int, "status of other responses while no pod is usable"]


class AuthorizationView(TypedDict):
    """The server that allows requests to wait, by annotations."""

    url: Annotated[str, "URL of the server, without its query"]
    always: Annotated[bool, "whether it decides about each request, not only one that would wait"]
    cacheSeconds: Annotated[
        float, "time for which a decision counts for equal credentials; 0 for one request"
    ]


class AgentView(TypedDict):
    """A client whose requests keep a revision awake."""

    agent: Annotated[
        str, "product in its User-Agent; browsers are `a browser`, others `no User-Agent`"
    ]
    requestsPerMinute: Annotated[int, "its requests a minute that arrived alone"]


class ModesView(TypedDict):
    """Queued requests by mode: the response of their clients in the meantime."""

    hold: Annotated[int, "clients that get nothing until a pod responds"]
    page: Annotated[int, "browsers that get the waiting page if no pod responds in time"]
    heartbeat: Annotated[int, "clients whose event stream begins before a pod responds"]
    refuse: Annotated[int, "clients that get 503 at once; always 0 but for a moment"]


class WhileWaitingView(TypedDict):
    """What the clients of waiting requests get, by annotations."""

    modes: Annotated[
        list[str], "the first that fits a request counts; if none fits, `hold`", WaitMode
    ]
    pageAfterSeconds: Annotated[float, "time of waiting after which a browser gets the page"]
    pageTemplate: Annotated[
        str | None, "key of the page's template in the ConfigMap `activator-pages`; `null` for none"
    ]
    heartbeatSeconds: Annotated[
        float, "time until an event stream begins, and between two comments in it"
    ]
    earlyHeads: Annotated[int, "event streams that the activator began before a pod responded"]
    queuedByMode: Annotated[ModesView, "queued requests by mode"]
    leaseSeconds: Annotated[
        float,
        "time for which open pages and refused clients count as one concurrent request; 0 without "
        "any",
    ]


class ProfileView(TypedDict):
    """The kind of application of a revision, and the limit of waits for its pods."""

    profile: Annotated[
        str | None, "kind of application, by annotation; `null` for any", (*Profile, None)
    ]
    waitSeconds: Annotated[
        float | None,
        "limit of the wait for a pod; `null`: `timeoutSeconds` limits wait and response",
    ]
