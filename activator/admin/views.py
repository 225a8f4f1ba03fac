"""What the admin API's answers consist of: each field once, with its type and its meaning.

From these types follow the OpenAPI document (openapi.py), the tables of docs/reference.md
(view_tables.py) and what mypy demands of whoever makes the answers. A contract: fields are added,
and words to closed sets, but none is taken away or given another meaning within ``/api/v1``;
clients ignore what they do not know. Knative has no counterpart.
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
from throttler.reason import TABLE, Request
from throttler.rule import Decision, Rule

#: Reasons of queued requests.
WAITING: Final = tuple(row.reason for row in TABLE if row.request is Request.QUEUED)

#: Reasons for which a request of a known revision can fail.
FAILING: Final = tuple(row.reason for row in TABLE if row.request is not Request.REFUSED)


def says(meaning: str, words: Iterable[Enum | str | None] = ()) -> Meta:
    """Return what there is to say of a field.

    Arguments:
        meaning: for the reference and the OpenAPI document, with code in backquotes.
        words: the closed set that its value is of.
    """
    values = [word.value if isinstance(word, Enum) else word for word in words]
    return Meta(description=meaning, extra_json_schema={"enum": values} if values else None)


class CapacityBreakdown(TypedDict):
    """What `capacity` is made of."""

    way: Annotated[
        str,
        says(
            "whether requests go to `pods` or, while these cannot be reached, to the `cluster-ip`",
            ("pods", "cluster-ip"),
        ),
    ]
    pods: Annotated[
        int, says("usable pods; by the ClusterIP, those that Kubernetes lists as ready")
    ]
    limitPerPod: Annotated[
        int | None, says("requests that each may have at a time; `null` is no limit")
    ]
    activators: Annotated[int, says("activators that share these pods; 0 while that is not known")]
    ownPods: Annotated[int, says("how many of `pods` are this activator's own share")]
    borrows: Annotated[bool, says("whether pods beyond it are used once those in it are full")]
    sentence: Annotated[str, says("the arithmetic written out, for people, by the same terms")]


class PodView(TypedDict):
    """A pod, or the ClusterIP."""

    address: Annotated[str, says("where it listens, `ip:port`")]
    uid: Annotated[str, says("which pod it is; empty if Endpoints does not say")]
    kubernetes: Annotated[
        str,
        says(
            "what its Endpoints object says; `gone` if it is in none any more, `service` of a "
            "ClusterIP",
            ("ready", "not-ready", "gone", "service"),
        ),
    ]
    probe: Annotated[
        str,
        says(
            "what the activator's own probe, or a connection for a request, last found",
            ("passed", "failed", "unknown"),
        ),
    ]
    probeStatus: Annotated[
        int | None,
        says("the HTTP status that the last probe was answered; `null` if there is none"),
    ]
    lastProbeSecondsAgo: Annotated[
        float | None,
        says("how long ago a probe last passed or failed; `null` before the first"),
    ]
    state: Annotated[
        str, says("where it is in its life; only healthy ones are sent requests", PodState)
    ]
    stateSecondsAgo: Annotated[float | None, says("how long ago it came to that state")]
    usable: Annotated[
        bool,
        says(
            "whether it is sent requests: healthy, in reach, and listed as ready "
            "where our probe alone does not suffice"
        ),
    ]
    decision: Annotated[
        str,
        says("what follows: `use` it, `wait` until it may be used, or `leave` it alone", Decision),
    ]
    decidedBy: Annotated[str, says("[the rule](#the-rules) that decided this", Rule)]
    explanation: Annotated[str, says("the same in a sentence, for people")]
    inFlight: Annotated[int, says("requests at this pod from this activator")]
    silentSeconds: Annotated[
        float | None,
        says(
            "seconds for which it has had requests and begun no response; `null` below 5 s, and "
            "without requests. A response that began earlier may still go on"
        ),
    ]
    limit: Annotated[int | None, says("how many it may have; `null` is no limit")]
    lastError: Annotated[
        str | None,
        says(
            "what the last failed probe or connection met, or the answer for which it is out; "
            "`null` if none"
        ),
    ]
    inSlice: Annotated[bool, says("whether it is usable and belongs to this activator's own share")]


class ForecastView(TypedDict):
    """How long a request would wait."""

    startSeconds: Annotated[
        float | None,
        says(
            "the median of the last 15 starts, from the first request that found no pod listed "
            "to the first pod in use, if somebody waited less than a minute before it; `null` "
            "before the first"
        ),
    ]
    drainSecondsPerRequest: Annotated[
        float | None,
        says(
            "how far apart requests leave the queue, with as many running as now; `null` while "
            "that is not known, or none runs"
        ),
    ]
    expectedWaitSeconds: Annotated[
        float | None,
        says(
            "how long a request that came now would wait, which `Retry-After` says to those "
            "that are refused; `null` while that is not known, as where the only pod was lost a "
            "moment ago"
        ),
    ]


class FailureView(TypedDict):
    """A request that was not served."""

    secondsAgo: Annotated[float, says("how long ago it ended")]
    status: Annotated[
        int, says("what its client got; of an answer that was broken off, the pod's own status")
    ]
    reason: Annotated[str, says("why, as `Activator-Reason` has it", FAILING)]
    detail: Annotated[str | None, says("more about it, for people, such as what a pod did")]


class RevisionView(TypedDict):
    """A revision: what it may have, what it has, what waits, and why."""

    namespace: Annotated[str, says("of the Revision object")]
    name: Annotated[str, says("of the Revision object")]
    uid: Annotated[str, says("a new one under the same name is another revision")]
    deleted: Annotated[
        bool,
        says(
            "whether the Revision object is gone: what waits and runs is brought to its end, a "
            "new request is answered 404"
        ),
    ]
    containerConcurrency: Annotated[
        int, says("requests that one pod may have at a time; 0 is no limit")
    ]
    protocol: Annotated[str, says("what the pods speak", AppProtocol)]
    timeoutSeconds: Annotated[float, says("time from a request's arrival to the end of its answer")]
    readinessRule: Annotated[
        str,
        says(
            "whose word makes a pod usable: our own `probe`'s, or Kubernetes' as well, and why",
            ReadinessRule,
        ),
    ]
    loadBalancing: Annotated[
        str,
        says(
            "which pod gets a request, see [which pod](#which-pod): as annotated, or else as "
            "`containerConcurrency` has it",
            POLICIES,
        ),
    ]
    hashKey: Annotated[
        str | None,
        says("the part of a request by which `hash` picks its pod; `null` without the annotation"),
    ]
    capacity: Annotated[
        int | None,
        says(
            "requests that the usable pods can take at a time from this activator; "
            "`null` is no limit"
        ),
    ]
    capacityBreakdown: Annotated[CapacityBreakdown, says("what that is made of, see below")]
    inFlight: Annotated[int, says("requests at pods now")]
    queued: Annotated[int, says("requests that wait now")]
    oldestWaiterSeconds: Annotated[
        float | None,
        says("how long the first of them has waited; `null` when nobody waits"),
    ]
    queueDepth: Annotated[int, says("how many may wait")]
    heldBytes: Annotated[int, says("bytes of waiting requests that are held in memory")]
    reason: Annotated[
        str | None,
        says("why requests wait; `null` when nobody waits", (*WAITING, None)),
    ]
    reasonDetail: Annotated[
        str | None,
        says("more about it, for people, such as what a probe met"),
    ]
    lastFailure: Annotated[
        FailureView | None,
        says(
            "the last request that got an answer of ours instead of a pod's, or a pod's that was "
            "broken off; `null` if there was none since the start"
        ),
    ]
    forecast: Annotated[ForecastView, says("how long it takes, see below")]
    reachableHealthyPods: Annotated[
        int, says("healthy pods that this activator may send requests to")
    ]
    activatorIndex: Annotated[
        int,
        says(
            "which share of the pods is this activator's own, from 0; -1 while it "
            "is not among the revision's activators"
        ),
    ]
    activatorCount: Annotated[int, says("of how many; 0 while that is not known")]
    clusterIP: Annotated[
        PodView | None,
        says(
            "the private Service's ClusterIP, with the fields of a pod, while pods "
            "cannot be reached by their own addresses; it is in use if it is `usable`"
        ),
    ]
    pods: Annotated[list[PodView], says("every known pod, by address")]


#: Its names are words of ours and no identifiers.
PhasesView = TypedDict(
    "PhasesView",
    {
        "stat-sent": Annotated[float, says("a report on the revision left for the autoscaler")],
        "address": Annotated[float, says("Kubernetes listed a pod that was not there before")],
        "probe": Annotated[float, says("a pod was asked whether it is ready")],
        "probe-passed": Annotated[float, says("one had answered that it is")],
        "dispatched": Annotated[
            float, says("the request that was answered first was given to its pod")
        ],
        "first-byte": Annotated[float, says("the first byte of that answer came")],
    },
    total=False,
)


class WakeUpView(TypedDict):
    """A wake-up: what happened from the first request that waited to the first answer."""

    began: Annotated[
        str,
        says(
            "when a request first waited while no pod was usable, nor had been a moment before; "
            "UTC, RFC 3339"
        ),
    ]
    outcome: Annotated[
        str | None,
        says(
            "how it ended: with an answer, or as the last request that waited did; "
            "`null` while it is under way",
            (*OUTCOMES, None),
        ),
    ]
    seconds: Annotated[float | None, says("how long it took; `null` while it is under way")]
    requests: Annotated[int, says("how many waited for it")]
    pod: Annotated[
        str | None, says("the address of the pod that answered first; `null` while there is none")
    ]
    phases: Annotated[
        PhasesView, says("what was seen, in order, with the seconds since the beginning; see below")
    ]
    probeAheadSeconds: Annotated[
        float | None,
        says(
            "for how long that pod was in use before Kubernetes listed it as ready; `null` while "
            "that is not known, or if Kubernetes was first"
        ),
    ]


class RevisionDetailView(RevisionView):
    """A revision, with what is told of it only where it is asked for alone."""

    nextReason: Annotated[
        str | None,
        says("why a request that came now would wait; `null` if it would not", (*WAITING, None)),
    ]
    nextReasonDetail: Annotated[str | None, says("more about it, as `reasonDetail`")]
    failures: Annotated[
        dict[str, int],
        says("how many requests failed since the start as `lastFailure` did, by their reasons"),
    ]
    wakeUps: Annotated[list[WakeUpView], says("the last ten wake-ups, the newest first")]


class WatchView(TypedDict):
    """What is followed of one kind of objects."""

    ageSeconds: Annotated[
        float | None,
        says(
            "time since the API server last said anything of this kind, about 60 s at most while "
            "all is well; `null` of what may be missing, and is"
        ),
    ]
    error: Annotated[
        str | None,
        says("why the watch fails at present; `null` if it does not. The last state is in force"),
    ]
    drifted: Annotated[
        int,
        says("objects of which a self-check found that a change was lost, since the start"),
    ]


class ManifestsView(TypedDict):
    """The folder in the place of a cluster."""

    folder: Annotated[str, says("its path")]
    ageSeconds: Annotated[
        float, says("time since it was last looked at, about 5 s at most while all is well")
    ]
    lastChangeSecondsAgo: Annotated[
        float, says("time since an object was last taken from it, or taken away")
    ]


class AutoscalerView(TypedDict):
    """The link to the autoscaler."""

    connected: Annotated[bool, says("whether it is")]
    ageSeconds: Annotated[
        float | None,
        says(
            "time since the autoscaler last gave a sign of life, about 4 s at most while all is "
            "well; since the start if it never did"
        ),
    ]
    lastSentSecondsAgo: Annotated[
        float | None, says("time since it was last told anything; `null` if it never was")
    ]
    lastError: Annotated[
        str | None, says("why the last dial or connection failed; `null` if none did")
    ]


class ActivatorView(TypedDict):
    """Who answers."""

    podName: Annotated[str, says("what it is called")]
    version: Annotated[str, says("of the activator")]
    build: Annotated[
        str, says("whether the source runs as it is, or as extension modules made of it", Build)
    ]
    uptimeSeconds: Annotated[float, says("for how long it has run")]
    ready: Annotated[bool, says("what `GET /readyz` says")]
    notReadyReason: Annotated[str | None, says("why it is not ready; `null` when it is")]
    manifestErrors: Annotated[
        dict[str, str],
        says("what is wrong with the files of `--manifests` at present, by path"),
    ]
    watches: Annotated[
        dict[str, WatchView],
        says("what is followed of a cluster, by kind of objects; empty where there is none"),
    ]
    manifests: Annotated[
        ManifestsView | None, says("the folder of `--manifests`; `null` where there is none")
    ]
    autoscaler: Annotated[
        AutoscalerView | None, says("the link to the autoscaler; `null` where there is none")
    ]


class RevisionsView(TypedDict):
    """All revisions."""

    revisions: Annotated[list[RevisionView], says("sorted by namespace and name")]
    activator: Annotated[ActivatorView, says("who answers")]


class PastView(TypedDict):
    """What was in each step; lists of equal length, the oldest step first."""

    queued: Annotated[list[int], says("the most requests that waited at a time")]
    inFlight: Annotated[list[int], says("the most requests that were at pods at a time")]
    outcomes: Annotated[
        dict[str, list[int]],
        says(
            "how many requests ended so, by the words of "
            "`activator_requests_total`; only those that occur"
        ),
    ]


class RevisionPastView(PastView):
    """The same of one revision."""

    namespace: Annotated[str, says("of the Revision object")]
    name: Annotated[str, says("of the Revision object")]


class HistoryView(TypedDict):
    """The last ten minutes."""

    revisions: Annotated[
        list[RevisionPastView],
        says("those that had requests, sorted by namespace and name, see below"),
    ]
    activator: Annotated[
        PastView,
        says(
            "the sums of all revisions; of `queued` and `inFlight` there were at most so many, "
            "since not all have their peaks at the same moment"
        ),
    ]
    stepSeconds: Annotated[float, says("how long a step is")]
    steps: Annotated[int, says("how many there can be; fewer after a start")]
    time: Annotated[str, says("when the last step ended; UTC, RFC 3339")]


class ProblemView(TypedDict):
    """What was wrong (RFC 9457)."""

    type: Annotated[str, says("`about:blank`: the status says it all")]
    title: Annotated[str, says("the status in words")]
    status: Annotated[int, says("the status of the answer")]
    detail: Annotated[str, says("what was wrong and what to do, for people")]
