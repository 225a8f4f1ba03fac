"""Define the fields of a revision, of the list of revisions, of their history, and of errors."""

from __future__ import annotations

from typing import Annotated, TypedDict

from activator.admin.views.activators import ActivatorView, ObjectWarningView
from activator.admin.views.details import (
    AgentView,
    AuthorizationView,
    ColdStartView,
    PodView,
    ProbeView,
    ProfileView,
    QueueOrderView,
    WakeRulesView,
    WhileWaitingView,
)
from activator.admin.views.fields import FAILING, KIND, WAITING, says
from throttler.balancing import POLICIES
from throttler.model import AdaptiveMode, AppProtocol, Overflow, ReadinessRule


class CapacityBreakdown(TypedDict):
    """The terms of `capacity`."""

    way: Annotated[
        str,
        says(
            "`pods` if requests go to pods; `cluster-ip` if the pods are not reachable, and "
            "requests go to the ClusterIP",
            ("pods", "cluster-ip"),
        ),
    ]
    pods: Annotated[
        int,
        says(
            "number of usable pods; with the ClusterIP, number of pods that Kubernetes lists as "
            "ready"
        ),
    ]
    limitPerPod: Annotated[
        int | None, says("maximum of concurrent requests of one pod; `null` is no limit")
    ]
    activators: Annotated[int, says("number of activators that share these pods; 0 if unknown")]
    ownPods: Annotated[int, says("how many of `pods` are in this activator's own share")]
    borrows: Annotated[
        bool, says("whether the activator uses pods beyond its share when its own pods are full")
    ]
    sentence: Annotated[str, says("the same terms as an equation, for people")]


class StickyView(TypedDict):
    """How the requests of one client or session stay at one pod."""

    key: Annotated[str, says("the part of a request that leads to its pod")]
    overflow: Annotated[str, says("what a request does while its pod is full", Overflow)]
    kept: Annotated[
        int, says("requests that went to the pod that their cookie or their session names")
    ]
    hashed: Annotated[int, says("requests that went to the pod of their key, by hash")]
    overflowed: Annotated[int, says("requests that went to another pod, since theirs was full")]
    waited: Annotated[int, says("requests that waited for their own pod")]


class ForecastView(TypedDict):
    """How long a request would wait."""

    startSeconds: Annotated[
        float | None,
        says(
            "median of the last 15 starts, from the first request that found no listed pod to the "
            "first usable pod. A start counts if a request waited less than a minute before it; "
            "`null` before the first"
        ),
    ]
    startingSeconds: Annotated[
        float | None,
        says("time since the first request of the start in progress; `null` without one"),
    ]
    drainSecondsPerRequest: Annotated[
        float | None,
        says(
            "time between two requests that leave the queue, with as many requests in flight as "
            "now; `null` if unknown, or if no request is in flight"
        ),
    ]
    expectedWaitSeconds: Annotated[
        float | None,
        says(
            "time that a new request would wait. `Retry-After` of a refusal is based on it; `null`"
            " if unknown, for example just after the only pod was lost, or if a start is late"
        ),
    ]


class FailureView(TypedDict):
    """A failed request."""

    secondsAgo: Annotated[float, says("time since the request ended")]
    status: Annotated[
        int, says("status that the client got; the pod's own if the response was aborted")
    ]
    reason: Annotated[str, says("the reason, as in `Activator-Reason`", FAILING)]
    detail: Annotated[
        str | None, says("more about the reason, for people, for example the error of a pod")
    ]


class RevisionIdentity(TypedDict):
    """Which revision it is."""

    namespace: Annotated[str, says("namespace of the Revision object")]
    name: Annotated[str, says("name of the Revision object")]
    kind: Annotated[str, says(KIND)]
    uid: Annotated[
        str, says("uid of the Revision object; the same name with another uid is another revision")
    ]
    deleted: Annotated[
        bool,
        says(
            "whether the Revision object is gone. Queued requests and requests in flight may "
            "finish, a new request gets 404"
        ),
    ]


class RevisionSettings(TypedDict):
    """What the objects of a revision ask for."""

    containerConcurrency: Annotated[
        int, says("maximum of concurrent requests of one pod; 0 is no limit")
    ]
    protocol: Annotated[str, says("protocol of the pods", AppProtocol)]
    timeoutSeconds: Annotated[
        float,
        says(
            "time-out from the arrival of a request to the end of its response; of a Service, to "
            "the first byte, and 0 for no limit"
        ),
    ]
    readinessRule: Annotated[
        str,
        says(
            "what makes a pod usable: `probe` if the activator's probe is enough. All others also "
            "require Kubernetes to list it as ready",
            ReadinessRule,
        ),
    ]
    loadBalancing: Annotated[
        str,
        says(
            "the policy that picks a pod for a request, see [which pod](#which-pod); by "
            "annotation, or by `containerConcurrency`",
            POLICIES,
        ),
    ]
    hashKey: Annotated[
        str | None,
        says("the part of a request by which `hash` picks a pod; `null` without the annotation"),
    ]
    sticky: Annotated[
        StickyView | None,
        says("how requests of one client stay at one pod; `null` without the annotation"),
    ]
    adaptiveConcurrency: Annotated[
        str,
        says(
            "whether response times limit the requests in flight at each pod; always `off` with a "
            "`containerConcurrency`",
            AdaptiveMode,
        ),
    ]


class RevisionRequests(TypedDict):
    """The requests of a revision, and how many it may have."""

    capacity: Annotated[
        int | None,
        says(
            "maximum of concurrent requests from this activator, over all usable pods; `null` is "
            "no limit"
        ),
    ]
    capacityBreakdown: Annotated[CapacityBreakdown, says("the terms of the capacity, see below")]
    inFlight: Annotated[int, says("requests in flight")]
    queued: Annotated[int, says("requests in the queue")]
    oldestWaiterSeconds: Annotated[
        float | None,
        says(
            "time for which the first request of the queue has waited; `null` if the queue is empty"
        ),
    ]
    queueDepth: Annotated[int, says("maximum of queued requests")]
    heldBytes: Annotated[int, says("bytes of queued requests in memory")]
    reason: Annotated[
        str | None,
        says("why requests wait; `null` if the queue is empty", (*WAITING, None)),
    ]
    reasonDetail: Annotated[
        str | None,
        says("more about the reason, for people, for example the error of a probe"),
    ]
    lastFailure: Annotated[
        FailureView | None,
        says(
            "the last request that got an error response of the activator, or whose response was "
            "aborted; `null` if there was none since the start"
        ),
    ]
    forecast: Annotated[ForecastView, says("how long a request would wait, see below")]


class RevisionPods(TypedDict):
    """The pods of a revision, and this activator's share of them."""

    reachableHealthyPods: Annotated[int, says("healthy pods that this activator can reach")]
    activatorIndex: Annotated[
        int,
        says(
            "index of this activator's own share of the pods, from 0; -1 if it is not among the "
            "activators of the revision"
        ),
    ]
    activatorCount: Annotated[int, says("number of activators of the revision; 0 if unknown")]
    clusterIP: Annotated[
        PodView | None,
        says(
            "the ClusterIP of the private Service, with the fields of a pod, while pods are not "
            "reachable by their own addresses; `usable` if it gets requests"
        ),
    ]
    pods: Annotated[list[PodView], says("all known pods, sorted by address")]


class RevisionView(RevisionIdentity, RevisionSettings, RevisionRequests, RevisionPods):
    """A revision with its limits, its requests and its pods."""

    failedStarts: Annotated[
        int, says("failed cold starts of the last ten; 0 as soon as a pod is usable")
    ]


class RouteView(TypedDict):
    """How requests reach a plain Service."""

    hosts: Annotated[list[str], says("its hosts, with its names in the cluster")]
    port: Annotated[
        int | None,
        says("port on which the activator listens for this Service alone; `null` for none"),
    ]
    reconnect: Annotated[
        bool,
        says("whether new connections reach the pods, so that clients of the port reconnect"),
    ]
    podsService: Annotated[
        str,
        says("the Service whose EndpointSlices list its pods; another one with route `front`"),
    ]


class RevisionDetailView(RevisionView, ProfileView):
    """A revision with more fields, in the response for one revision."""

    tls: Annotated[
        bool,
        says("whether pods of a plain Service serve TLS; certificates are not verified"),
    ]
    probe: Annotated[ProbeView, says("how the activator probes a pod, see below")]
    route: Annotated[
        RouteView | None, says("how requests reach a plain Service, see below; else `null`")
    ]
    queueOrder: Annotated[
        QueueOrderView | None,
        says("how the queue orders requests, see below; `null` if by arrival"),
    ]
    wakeRules: Annotated[
        WakeRulesView | None,
        says("which requests may start a pod, see below; `null` if all may"),
    ]
    authorization: Annotated[
        AuthorizationView | None,
        says("the server that allows requests to wait, see below; `null` without one"),
    ]
    keptAwakeBy: Annotated[
        list[AgentView],
        says("the clients whose requests keep the revision awake, the most requests first"),
    ]
    whileWaiting: Annotated[
        WhileWaitingView | None,
        says("what the clients of waiting requests get, see below; `null` if nothing"),
    ]
    nextReason: Annotated[
        str | None,
        says("why a new request would wait; `null` if it would not", (*WAITING, None)),
    ]
    nextReasonDetail: Annotated[str | None, says("more about it, as in `reasonDetail`")]
    failures: Annotated[
        dict[str, int],
        says("number of failures since the start, by reason; `lastFailure` is the last of them"),
    ]
    objectWarnings: Annotated[
        list[ObjectWarningView],
        says(
            "warnings about the objects of this revision. While no object lists a pod of it, also "
            "about Endpoints of its namespace that name no revision"
        ),
    ]
    coldStarts: Annotated[list[ColdStartView], says("the last ten cold starts, the newest first")]
    wakeUps: Annotated[
        list[ColdStartView], says("deprecated alias of `coldStarts`", deprecated=True)
    ]


class PastView(TypedDict):
    """Values of each step; lists of equal length, the oldest step first."""

    queued: Annotated[list[int], says("peak of queued requests")]
    inFlight: Annotated[list[int], says("peak of requests in flight")]
    outcomes: Annotated[
        dict[str, list[int]],
        says(
            "number of requests that ended, by the words of `activator_requests_total`; only words"
            " that occur"
        ),
    ]


class RevisionPastView(PastView):
    """Values of each step for one revision."""

    namespace: Annotated[str, says("namespace of the Revision object")]
    name: Annotated[str, says("name of the Revision object")]
    kind: Annotated[str, says(KIND)]


class HistoryView(TypedDict):
    """The last ten minutes."""

    revisions: Annotated[
        list[RevisionPastView],
        says("the revisions that had requests, sorted by namespace and name, see below"),
    ]
    activator: Annotated[
        PastView,
        says(
            "sums over all revisions. For `queued` and `inFlight` a sum is an upper bound, since "
            "peaks may fall on different moments"
        ),
    ]
    stepSeconds: Annotated[float, says("length of a step")]
    steps: Annotated[int, says("maximum of steps; fewer after a start")]
    time: Annotated[str, says("end of the last step; UTC, RFC 3339")]


class RevisionsView(TypedDict):
    """All revisions."""

    revisions: Annotated[list[RevisionView], says("sorted by namespace and name")]
    activator: Annotated[ActivatorView, says("the activator that responds")]


class ProblemView(TypedDict):
    """An error (RFC 9457)."""

    type: Annotated[str, says("`about:blank`: the status says it all")]
    title: Annotated[str, says("the phrase of the status")]
    status: Annotated[int, says("the HTTP status")]
    detail: Annotated[str, says("the error, and what to do, for people")]
