"""Define the fields of a revision, of the list of revisions, of their history, and of errors."""

from __future__ import annotations

from typing import Annotated, Final, TypedDict

from activator.admin.views.activators import ActivatorView, ObjectWarningView
from activator.admin.views.details import (
    AgentView,
    AuthorizationView,
    ColdStartView,
    InterceptorView,
    PodView,
    ProbeView,
    ProfileView,
    QueueOrderView,
    WakeRulesView,
    WhileWaitingView,
)
from throttler.balancing import POLICIES
from throttler.model import AdaptiveMode, AppProtocol, Overflow, ReadinessRule
from throttler.reason import TABLE, RequestState

#: Reasons of queued requests.
WAITING: Final = tuple(row.reason for row in TABLE if row.request is RequestState.QUEUED)

#: Reasons for which a request of a known revision can fail.
FAILING: Final = tuple(row.reason for row in TABLE if row.request is not RequestState.REFUSED)

#: The meaning of the field ``kind``.
KIND: Final = (
    "`revision` for a Revision of Knative, `service` for an annotated Service, `http-route` for "
    "an object of the KEDA HTTP add-on, `fallback` for its fallback; all may have one name"
)


class CapacityBreakdown(TypedDict):
    """The terms of `capacity`."""

    way: Annotated[
        str,
        "where requests go; `cluster-ip` if pods are not reachable",
        ("pods", "cluster-ip"),
    ]
    pods: Annotated[
        int,
        "number of usable pods; with the ClusterIP, of pods that Kubernetes lists as ready",
    ]
    limitPerPod: Annotated[
        int | None, "maximum of concurrent requests of one pod; `null` is no limit"
    ]
    activators: Annotated[int, "number of activators that share these pods; 0 if unknown"]
    ownPods: Annotated[int, "how many of `pods` are in this activator's own share"]
    borrows: Annotated[bool, "whether pods beyond the share are used when its own are full"]
    sentence: Annotated[str, "the same terms as an equation, for people"]


class StickyView(TypedDict):
    """How the requests of one client or session stay at one pod."""

    key: Annotated[str, "the part of a request that leads to its pod"]
    overflow: Annotated[str, "what a request does while its pod is full", Overflow]
    kept: Annotated[int, "requests that went to the pod of their cookie or session"]
    hashed: Annotated[int, "requests that went to the pod of their key, by hash"]
    overflowed: Annotated[int, "requests that went elsewhere, since theirs was full"]
    waited: Annotated[int, "requests that waited for their own pod"]


class ForecastView(TypedDict):
    """How long a request would wait."""

    startSeconds: Annotated[
        float | None,
        "median of the last 15 starts, from the first request without a listed pod to the first "
        "usable pod. A start counts if a request waited less than a minute before it; `null` "
        "before the first",
    ]
    startingSeconds: Annotated[
        float | None, "time since the first request of the start in progress; `null` without one"
    ]
    drainSecondsPerRequest: Annotated[
        float | None,
        "time between two requests that leave the queue, with as many in flight as now; `null` if "
        "unknown, or if none is in flight",
    ]
    expectedWaitSeconds: Annotated[
        float | None,
        "time that a new request would wait, the base of `Retry-After`; `null` if unknown, for "
        "example if a start is late",
    ]


class FailureView(TypedDict):
    """A failed request."""

    secondsAgo: Annotated[float, "time since the request ended"]
    status: Annotated[
        int,
        "status that the client got; the pod's own if its response was aborted; 0 for a closed "
        "connection of protocol `tcp`",
    ]
    reason: Annotated[str, "the reason, as in `Activator-Reason`", FAILING]
    detail: Annotated[str | None, "more about the reason, for people"]


class RevisionIdentity(TypedDict):
    """Which revision it is."""

    namespace: Annotated[str, "namespace of the object"]
    name: Annotated[str, "name of the object"]
    kind: Annotated[str, KIND]
    object: Annotated[
        str | None,
        "`HTTPScaledObject` or `InterceptorRoute` of the KEDA HTTP add-on; else `null`",
    ]
    uid: Annotated[str, "its uid; the same name with another uid is another revision"]
    deleted: Annotated[
        bool,
        "whether the object is gone. Its requests may finish, a new one gets 404",
    ]


class RevisionSettings(TypedDict):
    """What the objects of a revision ask for."""

    containerConcurrency: Annotated[int, "maximum of concurrent requests of one pod; 0 is no limit"]
    protocol: Annotated[str, "protocol of the pods", AppProtocol]
    timeoutSeconds: Annotated[
        float,
        "from the arrival of a request to the end of its response; of a Service, to the first "
        "byte, and 0 for no limit",
    ]
    readinessRule: Annotated[
        str,
        "what makes a pod usable: the activator's probe; all but `probe` also require Kubernetes "
        "to list it as ready",
        ReadinessRule,
    ]
    loadBalancing: Annotated[
        str,
        "[which pod](#which-pod) gets a request",
        POLICIES,
    ]
    hashKey: Annotated[
        str | None,
        "the part of a request by which `hash` picks a pod; `null` for none",
    ]
    sticky: Annotated[
        StickyView | None,
        "how requests of one client stay at one pod; `null` for none",
    ]
    adaptiveConcurrency: Annotated[
        str,
        "whether response times limit the requests in flight; always `off` with a "
        "`containerConcurrency`",
        AdaptiveMode,
    ]


class RevisionRequests(TypedDict):
    """The requests of a revision, and how many it may have."""

    capacity: Annotated[
        int | None,
        "maximum of concurrent requests from this activator; `null` is no limit",
    ]
    capacityBreakdown: Annotated[CapacityBreakdown, "its terms, see below"]
    inFlight: Annotated[int, "requests in flight"]
    queued: Annotated[int, "requests in the queue"]
    oldestWaiterSeconds: Annotated[
        float | None,
        "wait of the first request; `null` if the queue is empty",
    ]
    queueDepth: Annotated[int, "maximum of queued requests"]
    heldBytes: Annotated[int, "bytes of queued requests in memory"]
    reason: Annotated[
        str | None, "why requests wait; `null` if the queue is empty", (*WAITING, None)
    ]
    reasonDetail: Annotated[str | None, "more about the reason, for people"]
    lastFailure: Annotated[
        FailureView | None,
        "the last request that got an error response, or whose response was aborted; `null` "
        "before the first",
    ]
    forecast: Annotated[ForecastView, "how long a request would wait, see below"]


class RevisionPods(TypedDict):
    """The pods of a revision, and this activator's share of them."""

    reachableHealthyPods: Annotated[int, "healthy pods that this activator can reach"]
    activatorIndex: Annotated[
        int,
        "index of this activator's own share, from 0; -1 if it is none of the activators of the "
        "revision",
    ]
    activatorCount: Annotated[int, "number of activators of the revision; 0 if unknown"]
    clusterIP: Annotated[
        PodView | None,
        "the ClusterIP of the private Service, with the fields of a pod, while pods are "
        "unreachable by their own addresses",
    ]
    pods: Annotated[list[PodView], "all known pods, sorted by address"]


class RevisionView(RevisionIdentity, RevisionSettings, RevisionRequests, RevisionPods):
    """A revision with its limits, its requests and its pods."""

    failedStarts: Annotated[int, "failed cold starts of the last ten; 0 as soon as a pod is usable"]


class RouteView(TypedDict):
    """How requests reach a plain Service, or an object of the KEDA HTTP add-on."""

    hosts: Annotated[list[str], "its hosts, with its names in the cluster"]
    rules: Annotated[
        list[str],
        "the rules whose requests it gets: a host, with or without path and header fields",
    ]
    taken: Annotated[dict[str, str], "its rules that an older object has, each with that object"]
    port: Annotated[int | None, "the activator's port for this Service alone; `null` for none"]
    reconnect: Annotated[
        bool, "whether new connections reach the pods, so that clients should reconnect"
    ]
    podsService: Annotated[str, "the Service whose EndpointSlices list its pods"]


class RevisionDetailView(RevisionView, ProfileView):
    """A revision with more fields, in the response for one revision."""

    tls: Annotated[bool, "whether pods of a plain Service serve TLS; certificates are not verified"]
    probe: Annotated[ProbeView, "how the activator probes a pod, see below"]
    route: Annotated[
        RouteView | None,
        "how requests reach a plain Service or a route object, see below; else `null`",
    ]
    interceptor: Annotated[
        InterceptorView | None,
        "what an object of the KEDA HTTP add-on asks for, see below; else `null`",
    ]
    queueOrder: Annotated[
        QueueOrderView | None, "how the queue orders requests, see below; `null` if by arrival"
    ]
    wakeRules: Annotated[
        WakeRulesView | None, "which requests may start a pod, see below; `null` if all may"
    ]
    authorization: Annotated[
        AuthorizationView | None,
        "the server that allows requests to wait, see below; `null` without one",
    ]
    keptAwakeBy: Annotated[
        list[AgentView],
        "the clients whose requests keep the revision awake, the most requests first",
    ]
    keepAwake: Annotated[
        str | None,
        "which connections of a TCP Service are load: all open ones, or only the ones on which "
        "bytes pass; else `null`",
        ("connections", "bytes", None),
    ]
    whileWaiting: Annotated[
        WhileWaitingView | None,
        "what the clients of waiting requests get, see below; `null` if nothing",
    ]
    nextReason: Annotated[
        str | None, "why a new request would wait; `null` if it would not", (*WAITING, None)
    ]
    nextReasonDetail: Annotated[str | None, "more about it, as in `reasonDetail`"]
    failures: Annotated[
        dict[str, int],
        "number of failures since the start, by reason; `lastFailure` is the last of them",
    ]
    objectWarnings: Annotated[
        list[ObjectWarningView],
        "warnings about the objects of this revision. While no object lists a pod of it, also "
        "about Endpoints of its namespace that name no revision",
    ]
    coldStarts: Annotated[list[ColdStartView], "the last ten cold starts, the newest first"]
    wakeUps: Annotated[list[ColdStartView], "deprecated alias of `coldStarts`"]


class PastView(TypedDict):
    """Values of each step; lists of equal length, the oldest step first."""

    queued: Annotated[list[int], "peak of queued requests"]
    inFlight: Annotated[list[int], "peak of requests in flight"]
    outcomes: Annotated[
        dict[str, list[int]],
        "ended requests, by the words of `activator_requests_total` that occur",
    ]


class RevisionPastView(PastView):
    """Values of each step for one revision."""

    namespace: Annotated[str, "namespace of the object"]
    name: Annotated[str, "name of the object"]
    kind: Annotated[str, KIND]


class HistoryView(TypedDict):
    """The last ten minutes."""

    revisions: Annotated[
        list[RevisionPastView],
        "the revisions with requests, sorted, see below",
    ]
    activator: Annotated[
        PastView,
        "sums over all revisions, for `queued` and `inFlight` upper bounds, since peaks differ in "
        "time",
    ]
    stepSeconds: Annotated[float, "length of a step"]
    steps: Annotated[int, "maximum of steps; fewer after a start"]
    time: Annotated[str, "end of the last step; UTC, RFC 3339"]


class RevisionsView(TypedDict):
    """All revisions."""

    revisions: Annotated[list[RevisionView], "sorted by namespace and name"]
    activator: Annotated[ActivatorView, "the activator that responds"]


class ProblemView(TypedDict):
    """An error (RFC 9457)."""

    type: Annotated[str, "`about:blank`: the status says it all"]
    title: Annotated[str, "the phrase of the status"]
    status: Annotated[int, "the HTTP status"]
    detail: Annotated[str, "the error, and what to do, for people"]
