"""Define the fields of the admin API's responses: each once, with its type and its meaning.

The OpenAPI document (openapi.py) and the tables of docs/reference.md (view_tables.py) follow from
these types. mypy checks the code that makes the responses. The types are a contract. Later
versions may add fields within ``/api/v1``, and words to closed sets. They remove none, and change
no meaning. Clients must ignore unknown fields and words. Knative has no counterpart.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Annotated, Final, TypedDict

from msgspec import Meta

from activator.build import Build
from activator.records.counters import OUTCOMES
from throttler.balancing import POLICIES
from throttler.health import PodState
from throttler.model import AppProtocol, ReadinessRule
from throttler.pod_rule import Decision, Rule
from throttler.probe_spec import ProbeKind
from throttler.reason import TABLE, Request

#: Reasons of queued requests.
WAITING: Final = tuple(row.reason for row in TABLE if row.request is Request.QUEUED)

#: Reasons for which a request of a known revision can fail.
FAILING: Final = tuple(row.reason for row in TABLE if row.request is not Request.REFUSED)


def says(
    meaning: str, words: Iterable[Enum | str | None] = (), *, deprecated: bool = False
) -> Meta:
    """Return the description of a field.

    Arguments:
        meaning: text for the reference and the OpenAPI document, with code in backquotes.
        words: the closed set of its values; empty if any value of the type is possible.
        deprecated: whether a later version removes the field.
    """
    values = [word.value if isinstance(word, Enum) else word for word in words]
    more = {"enum": values} if values else {}
    return Meta(
        description=meaning,
        extra_json_schema=more | ({"deprecated": True} if deprecated else {}) or None,
    )


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
        says("HTTP status of the last probe; `null` if it got no response"),
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
        says("the decision: `use` it, `wait` until it is usable, or `leave` it alone", Decision),
    ]
    decidedBy: Annotated[str, says("[the rule](#the-rules) that decided", Rule)]
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
    lastError: Annotated[
        str | None,
        says(
            "error of the last failed probe or connection, or the error response that ejected the "
            "pod; `null` if none"
        ),
    ]
    inSlice: Annotated[bool, says("whether the pod is usable and in this activator's own share")]


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
            " if unknown, for example just after the only pod was lost"
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


#: The meaning of the field ``kind``.
_KIND: Final = (
    "`revision` for a Revision of Knative, `service` for a Service of Kubernetes that opts in; "
    "both may have one name"
)


class RevisionView(TypedDict):
    """A revision with its limits, its requests and its pods."""

    namespace: Annotated[str, says("namespace of the Revision object")]
    name: Annotated[str, says("name of the Revision object")]
    kind: Annotated[str, says(_KIND)]
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
    containerConcurrency: Annotated[
        int, says("maximum of concurrent requests of one pod; 0 is no limit")
    ]
    protocol: Annotated[str, says("protocol of the pods", AppProtocol)]
    timeoutSeconds: Annotated[
        float, says("time-out from the arrival of a request to the end of its response")
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


class ObjectWarningView(TypedDict):
    """A problem of an object: the object is broken, or a part of it has no effect."""

    kind: Annotated[str, says("kind of the object")]
    namespace: Annotated[str, says("namespace of the object")]
    name: Annotated[str, says("name of the object")]
    reason: Annotated[
        str | None,
        says(
            "`invalid` for a broken object, whose last good state stays in force; for a plain "
            "Service another [reason](#annotations-of-a-service); else `null`"
        ),
    ]
    warning: Annotated[str, says("which part has no effect, and why, for people")]


class RevisionDetailView(RevisionView):
    """A revision with more fields, in the response for one revision."""

    tls: Annotated[
        bool,
        says("whether pods of a plain Service serve TLS; certificates are not verified"),
    ]
    probe: Annotated[ProbeView, says("how the activator probes a pod, see below")]
    route: Annotated[
        RouteView | None, says("how requests reach a plain Service, see below; else `null`")
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


class WatchView(TypedDict):
    """The watch of one kind of objects."""

    ageSeconds: Annotated[
        float | None,
        says(
            "time since the API server last sent something for this kind, usually at most 60 s; "
            "`null` for a kind that is optional and missing"
        ),
    ]
    error: Annotated[
        str | None,
        says("why the watch fails now; `null` if it works. The last good state stays in force"),
    ]
    drifted: Annotated[
        int,
        says("objects for which a self-check found a missed event, since the start"),
    ]


class ManifestsView(TypedDict):
    """The folder of objects, without a cluster."""

    folder: Annotated[str, says("path of the folder")]
    ageSeconds: Annotated[
        float, says("time since the activator last read the folder, usually at most 5 s")
    ]
    lastChangeSecondsAgo: Annotated[float, says("time since an object of the folder last changed")]


class AutoscalerView(TypedDict):
    """The link to an autoscaler: Knative's, or `activator scale`."""

    connected: Annotated[bool, says("whether the connection to the autoscaler is open")]
    ageSeconds: Annotated[
        float | None,
        says(
            "time since the activator last received something from the autoscaler, usually at most"
            " 4 s; since the start if it never did"
        ),
    ]
    lastSentSecondsAgo: Annotated[
        float | None, says("time since the last report to the autoscaler; `null` if there was none")
    ]
    lastError: Annotated[
        str | None, says("why the last dial or connection failed; `null` if none failed")
    ]


class ActivatorView(TypedDict):
    """The activator that responds."""

    podName: Annotated[str, says("name of the activator's pod")]
    version: Annotated[str, says("version of the activator")]
    build: Annotated[
        str,
        says(
            "`pure` if the source runs as it is, `compiled` if it runs as extension modules", Build
        ),
    ]
    uptimeSeconds: Annotated[float, says("time since the start of the process")]
    ready: Annotated[bool, says("whether `GET /readyz` responds 200")]
    notReadyReason: Annotated[str | None, says("why the activator is not ready; `null` if it is")]
    manifestErrors: Annotated[
        dict[str, str],
        says("present errors in the files of `--manifests`, by path"),
    ]
    objectWarnings: Annotated[
        list[ObjectWarningView],
        says(
            "the valid objects that have no effect, such as Endpoints without a label; at most 100"
        ),
    ]
    watches: Annotated[
        dict[str, WatchView],
        says("the watches of a cluster, by kind of objects; empty without a cluster"),
    ]
    manifests: Annotated[
        ManifestsView | None, says("the folder of `--manifests`; `null` without it")
    ]
    autoscaler: Annotated[
        AutoscalerView | None, says("the link to Knative's autoscaler; `null` without one")
    ]
    scaler: Annotated[
        AutoscalerView | None,
        says("the link to `activator scale`, which scales Services; `null` without one"),
    ]
    scalerPage: Annotated[
        str | None, says("address of the scaler's page for browsers; `null` if it is not set")
    ]


class RevisionsView(TypedDict):
    """All revisions."""

    revisions: Annotated[list[RevisionView], says("sorted by namespace and name")]
    activator: Annotated[ActivatorView, says("the activator that responds")]


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
    kind: Annotated[str, says(_KIND)]


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


class ProblemView(TypedDict):
    """An error (RFC 9457)."""

    type: Annotated[str, says("`about:blank`: the status says it all")]
    title: Annotated[str, says("the phrase of the status")]
    status: Annotated[int, says("the HTTP status")]
    detail: Annotated[str, says("the error, and what to do, for people")]
