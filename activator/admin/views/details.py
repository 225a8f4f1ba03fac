"""Define the fields of pods, cold starts, queues, wake rules and waiting clients."""

from __future__ import annotations

from typing import Annotated, TypedDict

from activator.admin.views.fields import says
from activator.records.counters import OUTCOMES
from throttler.model import ProbeKind
from throttler.pod import PodState
from throttler.pod_rule import PodDecision, PodRule
from throttler.request_policies import NAMES, Profile, WaitMode


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


#: Its names are no identifiers, so it is made by a call.
PhasesView = TypedDict(
    "PhasesView",
    {
        "stat-sent": Annotated[
            float, says("the activator sent a report on the revision to the autoscaler")
        ],
        "address": Annotated[float, says("Kubernetes listed a new pod")],
        "probe": Annotated[float, says("the activator sent the first probe")],
        "probe-passed": Annotated[float, says("a probe succeeded")],
        "dispatched": Annotated[float, says("the request with the first response went to its pod")],
        "first-byte": Annotated[float, says("the first byte of that response came")],
    },
    total=False,
)


class ColdStartView(TypedDict):
    """A cold start, from the first request that waited to the first response."""

    began: Annotated[
        str,
        says(
            "when a request first waited while no pod was usable, and none had been a moment "
            "before; UTC, RFC 3339"
        ),
    ]
    outcome: Annotated[
        str | None,
        says(
            "`served`, or how the last request that waited ended; `null` until then",
            (*OUTCOMES, None),
        ),
    ]
    seconds: Annotated[float | None, says("duration; `null` until the end")]
    requests: Annotated[int, says("number of requests that waited")]
    pod: Annotated[
        str | None, says("address of the pod with the first response; `null` until then")
    ]
    phases: Annotated[
        PhasesView, says("phases in order, with seconds since the beginning; see below")
    ]
    probeAheadSeconds: Annotated[
        float | None,
        says(
            "time for which that pod was usable before Kubernetes listed it as ready; `null` if "
            "unknown, or if Kubernetes was first"
        ),
    ]
    why: Annotated[
        str | None,
        says("if it failed, why requests waited, as in `Activator-Reason`; else `null`"),
    ]


class ClassesView(TypedDict):
    """Queued requests by the class in which they arrived."""

    high: Annotated[int, says("requests of class high")]
    normal: Annotated[int, says("requests of class normal")]
    low: Annotated[int, says("requests of class low")]


class FlowView(TypedDict):
    """A flow with queued requests."""

    flow: Annotated[
        str,
        says(
            "hash of the name of the flow; the name itself with `activator.dev/fair-names`, if it "
            "has at most 64 bytes and can be printed"
        ),
    ]
    queued: Annotated[int, says("number of its queued requests")]


class QueueOrderView(TypedDict):
    """How the queue orders requests, by annotations."""

    priority: Annotated[
        str | None,
        says(
            "class of a request that selects none; `null` if requests have no classes",
            (*NAMES, None),
        ),
    ]
    trustsHeader: Annotated[
        bool, says("whether a request may select its class by `Activator-Priority`")
    ]
    queuedByClass: Annotated[
        ClassesView | None, says("queued requests by class; `null` without classes")
    ]
    fairBy: Annotated[
        str | None, says("part of a request that names its flow; `null` without flows")
    ]
    flows: Annotated[int, says("number of flows with queued requests")]
    largestFlows: Annotated[
        list[FlowView], says("the five flows with the most queued requests, the largest first")
    ]


class WakeRulesView(TypedDict):
    """Which requests may start a pod, by annotations; each rule must allow a request."""

    methods: Annotated[list[str], says("the methods that may; empty for all")]
    notUserAgents: Annotated[
        list[str], says("texts in a User-Agent that may not, in lower case; empty for none")
    ]
    notPaths: Annotated[list[str], says("beginnings of paths that may not; empty for none")]
    requiredHeader: Annotated[str | None, says("header that a request must have; `null` for none")]
    asleepStatus: Annotated[
        int, says("status of the response to other requests while no pod is usable")
    ]


class AuthorizationView(TypedDict):
    """The server that allows requests to wait, by annotations."""

    url: Annotated[str, says("URL of the server, without its query")]
    always: Annotated[
        bool, says("whether it decides about each request, not only one that would wait")
    ]
    cacheSeconds: Annotated[
        float, says("time for which a decision counts for the same credentials; 0 for one request")
    ]


class AgentView(TypedDict):
    """A client whose requests keep a revision awake."""

    agent: Annotated[
        str, says("product in its User-Agent; browsers are `a browser`, others `no User-Agent`")
    ]
    requestsPerMinute: Annotated[
        int, says("its requests a minute that arrived while no other request was there")
    ]


class ModesView(TypedDict):
    """Queued requests by mode: the response of their clients in the meantime."""

    hold: Annotated[int, says("clients that get nothing until a pod responds")]
    page: Annotated[int, says("browsers that get the waiting page if no pod responds in time")]
    heartbeat: Annotated[int, says("clients whose event stream begins before a pod responds")]
    refuse: Annotated[int, says("clients that get 503 at once; always 0 but for a moment")]


class WhileWaitingView(TypedDict):
    """What the clients of waiting requests get, by annotations."""

    modes: Annotated[
        list[str], says("the first that fits a request counts; if none fits, `hold`", WaitMode)
    ]
    pageAfterSeconds: Annotated[float, says("time of waiting after which a browser gets the page")]
    pageTemplate: Annotated[
        str | None,
        says("key of the page's template in the ConfigMap `activator-pages`; `null` for none"),
    ]
    heartbeatSeconds: Annotated[
        float, says("time until an event stream begins, and between two comments in it")
    ]
    earlyHeads: Annotated[
        int, says("event streams that the activator began before a pod responded, since the start")
    ]
    queuedByMode: Annotated[ModesView, says("queued requests by mode")]
    leaseSeconds: Annotated[
        float,
        says(
            "time for which open pages and refused clients still count as one concurrent request; "
            "0 without any"
        ),
    ]


class ProfileView(TypedDict):
    """The kind of application of a revision, and the limit of waits for its pods."""

    profile: Annotated[
        str | None, says("kind of application, by annotation; `null` for any", (*Profile, None))
    ]
    waitSeconds: Annotated[
        float | None,
        says("limit of the wait for a pod; `null`: `timeoutSeconds` limits wait and response"),
    ]
