"""The reasons why a request waits, or why it got an error response: one table with one row each.

The API, ``activator explain``, the dashboard and the tables of the pages read this table.
``throttler.wait_reason`` derives the reason of a queued request from the throttler's state. Pure.
Knative has no counterpart: its activator responds "activator request timeout" in each case.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final


class Reason(Enum):
    """The words. ``TABLE`` has a row for each; a page ``docs/reasons/WORD.md`` explains it."""

    AUTOSCALER_UNREACHABLE = "autoscaler-unreachable"
    SCALER_UNREACHABLE = "scaler-unreachable"
    NO_ENDPOINTS = "no-endpoints"
    PODS_ASLEEP = "pods-asleep"
    PODS_NOT_READY = "pods-not-ready"
    PROBE_FAILING = "probe-failing"
    BAD_ANSWERS = "bad-answers"
    AT_CAPACITY = "at-capacity"
    OUTRANKED = "outranked"
    QUEUE_FULL = "queue-full"
    TENANT_FULL = "tenant-full"
    WAIT_TOO_LONG = "wait-too-long"
    WAIT_REFUSED = "wait-refused"
    RESPONSE_LATE = "response-late"
    UPSTREAM_FAILED = "upstream-failed"
    NO_EVENT_STREAM = "no-event-stream"
    NO_UPGRADE = "no-upgrade"
    DRAINING = "draining"
    ASLEEP = "asleep"
    DENIED = "denied"
    NOT_AUTHORIZED = "not-authorized"
    UNKNOWN_REVISION = "unknown-revision"
    BAD_REQUEST = "bad-request"


class RequestState(Enum):
    """The state of a request when it gets a reason.

    QUEUED: it waits for a pod; the reason of the wait becomes that of a 504 at the deadline.
    ENDED: it ends with an error. REFUSED: it ends with an error, and no revision is known.
    """

    QUEUED = "queued"
    ENDED = "ended"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class ReasonRow:
    """The facts about one reason.

    Attributes:
        request: state of the request that gets this reason.
        status: HTTP status of the error response; 0 if the error decides (RFC 9110 section 15).
        meaning: the reason as one sentence; the title of a JSON error response (RFC 9457).
        advice: the first step for an operator, as one sentence.
        commands: commands that show more, in a cluster. ``{namespace}`` and ``{name}`` stand for
            the revision, ``{pods}`` for the Service whose EndpointSlices list its pods.
        service_meaning: replaces ``meaning`` for a plain Service; empty if that fits.
        service_advice, service_commands: replace both for a plain Service; empty if they fit.
        in_folder: replaces advice and commands if objects come from the folder ``{folder}``;
            empty if the advice fits.
        service_in_folder: replaces ``in_folder`` for a plain Service; empty if that fits.
        route_advice, route_commands: replace advice and commands for an object of the KEDA HTTP
            add-on; empty if the ones of a Service fit.
    """

    reason: Reason
    request: RequestState
    status: int
    meaning: str
    advice: str
    commands: tuple[str, ...] = ()
    in_folder: str = ""
    service_meaning: str = ""
    service_advice: str = ""
    service_commands: tuple[str, ...] = ()
    service_in_folder: str = ""
    route_advice: str = ""
    route_commands: tuple[str, ...] = ()

    def title(self, *, is_service: bool) -> str:
        """Return the meaning for a Revision, or for a plain Service."""
        return (is_service and self.service_meaning) or self.meaning

    def folder_step(self, *, is_service: bool) -> str:
        """Return the advice if objects come from a folder; empty if the other advice fits."""
        return (is_service and self.service_in_folder) or self.in_folder

    def steps(self, *, is_service: bool, is_route: bool = False) -> tuple[str, tuple[str, ...]]:
        """Return advice and commands for a Revision, a plain Service, or an object of KEDA."""
        if is_route and self.route_commands:
            return self.route_advice or self.advice, self.route_commands
        if is_service and (self.service_advice or self.service_commands):
            return self.service_advice or self.advice, self.service_commands
        return self.advice, self.commands


#: The word in a sentence, not in a name, as in default/request-log.
_REQUEST: Final = re.compile(r"(?<![\w./-])request(s?)(?![\w/-]|\.\w)")


def of_connections(text: str) -> str:
    """Return a text about requests as one about the connections of a TCP Service.

    Arguments:
        text: sentences; commands may name an object that is called request.
    """
    return _REQUEST.sub(r"connection\1", text)


_QUEUED, _ENDED, _REFUSED = RequestState

_PODS: Final = "-n {namespace} -l serving.knative.dev/revision={name}"
_SLICES: Final = "kubectl get endpointslices -n {namespace} -l kubernetes.io/service-name={pods}"
#: Its events have the reasons of `activator scale`.
_SERVICE: Final = "kubectl describe service -n {namespace} {name}"
#: They scale the target of an HTTPScaledObject or an InterceptorRoute.
_SCALED_OBJECTS: Final = "kubectl get scaledobjects -n {namespace}"
#: The pods of a Service, by the names in its EndpointSlices: a shell inserts them.
_NAMES: Final = f"$({_SLICES} -o 'jsonpath={{..targetRef.name}}')"
_DESCRIBE_PODS: Final = f"kubectl describe pods -n {{namespace}} {_NAMES}"
_STATES: Final = f"kubectl get pods -n {{namespace}} {_NAMES}"
_LOGS: Final = f"for pod in {_NAMES}; do kubectl logs -n {{namespace}} $pod --tail=20; done"
#: Without an address, no EndpointSlice lists a pod. A quota or a webhook lets no pod begin.
_PENDING: Final = "kubectl get pods -n {namespace} --field-selector=status.phase=Pending"
_NOT_CREATED: Final = "kubectl get events -n {namespace} --field-selector=reason=FailedCreate"
#: Shows the readiness of each container of a pod; `kubectl get pods` shows only their number.
_CONTAINERS: Final = (
    "custom-columns=POD:.metadata.name,IP:.status.podIP,"
    "CONTAINER:.status.containerStatuses[*].name,READY:.status.containerStatuses[*].ready"
)

#: One row for each reason, in the order of the enum.
TABLE: Final[tuple[ReasonRow, ...]] = (
    ReasonRow(
        Reason.AUTOSCALER_UNREACHABLE,
        _QUEUED,
        504,
        "Kubernetes lists no pod of this revision, and the activator cannot reach the autoscaler, "
        "which starts pods.",
        advice="Check whether the autoscaler runs.",
        commands=("kubectl get pods -n knative-serving -l app=autoscaler",),
        in_folder="Check whether the autoscaler runs at ACTIVATOR_AUTOSCALER_URL.",
    ),
    ReasonRow(
        Reason.SCALER_UNREACHABLE,
        _QUEUED,
        504,
        "Kubernetes lists no pod of this Service, and the activator cannot reach "
        "`activator scale`, which starts pods.",
        advice="Check whether `activator scale` runs.",
        commands=("kubectl get pods -n activator-system -l app=activator-scale",),
        in_folder="Check whether `activator scale` runs at ACTIVATOR_SCALER_URL.",
    ),
    ReasonRow(
        Reason.NO_ENDPOINTS,
        _QUEUED,
        504,
        "Kubernetes lists no pod of this revision.",
        advice="Check whether the pod is Pending, or was never requested.",
        commands=(f"kubectl get podautoscaler,pods {_PODS}",),
        in_folder="If nothing scales this revision, add its pod to an Endpoints object of the "
        "private Service, in the folder {folder}",
        service_meaning="Kubernetes lists no pod of this Service.",
        service_commands=(_PENDING, _NOT_CREATED, _SERVICE),
        route_commands=(_PENDING, _NOT_CREATED, _SCALED_OBJECTS),
        service_in_folder="If nothing scales this Service, add its pod to an EndpointSlice of the "
        "Service, in the folder {folder}",
    ),
    ReasonRow(
        Reason.PODS_ASLEEP,
        _QUEUED,
        504,
        "Kubernetes lists pods of this Service, but its workload sleeps or is about to wake.",
        advice="Nothing for some seconds. Then find out why `activator scale` does not wake the "
        "workload, or does not remove the annotation activator.dev/asleep.",
        commands=(f"kubectl get pods {_PODS}",),
        service_commands=(_SERVICE,),
        in_folder="Remove the annotation activator.dev/asleep of the Service, in the folder "
        "{folder}",
    ),
    ReasonRow(
        Reason.PODS_NOT_READY,
        _QUEUED,
        504,
        "Kubernetes lists pods of this revision, but none is usable yet.",
        advice="Read in the table of pods which rule keeps each pod from use, then find out which "
        "container is not ready, and why.",
        commands=(
            f"kubectl get pods {_PODS} -o '{_CONTAINERS}'",
            f"kubectl describe pods {_PODS}",
        ),
        in_folder="Read the last error in the table of pods. Each program must listen at its "
        "address and pass the probe. If Kubernetes' readiness counts, list its address under "
        "addresses, not notReadyAddresses, in the Endpoints objects in the folder {folder}",
        service_meaning="Kubernetes lists pods of this Service, but none is usable yet.",
        service_commands=(_STATES, _DESCRIBE_PODS, _LOGS),
        service_in_folder="Read the last error in the table of pods. Each program must listen at "
        "its address and pass the probe. If Kubernetes' readiness counts, set the condition ready "
        "to true in the EndpointSlices, in the folder {folder}",
    ),
    ReasonRow(
        Reason.PROBE_FAILING,
        _QUEUED,
        504,
        "Kubernetes lists pods as ready, but the activator's own probe of them fails.",
        advice="Compare the last error in the table of pods with the log of queue-proxy.",
        commands=(f"kubectl logs {_PODS} -c queue-proxy",),
        in_folder="Read the last error in the table of pods. The Endpoints objects list the "
        "addresses, in the folder {folder}",
        service_advice="Compare the probe with the last error in the table of pods. If connections "
        "are refused, the application does not listen on the Service's targetPort. The annotation "
        "activator.dev/probe chooses another probe.",
        service_commands=(_DESCRIBE_PODS, _LOGS),
        route_advice="Compare the probe with the last error in the table of pods. If connections "
        "are refused, the application does not listen on the Service's targetPort.",
        route_commands=(_DESCRIBE_PODS, _LOGS),
        service_in_folder="Compare the probe with the last error in the table of pods. The "
        "EndpointSlices list the addresses, in the folder {folder}",
    ),
    ReasonRow(
        Reason.BAD_ANSWERS,
        _QUEUED,
        504,
        "Pods pass the activator's own probe, but it ejected them for error responses.",
        advice="Find out why the container behind queue-proxy fails.",
        commands=(f"kubectl logs {_PODS} -c user-container --previous",),
        in_folder="Read the log of the program at these addresses. The Endpoints objects list "
        "them, in the folder {folder}",
        service_advice="Find out why the application fails: read the logs of its pods.",
        service_commands=(_LOGS,),
        service_in_folder="Read the log of the program at these addresses. The EndpointSlices list "
        "them, in the folder {folder}",
    ),
    ReasonRow(
        Reason.AT_CAPACITY,
        _QUEUED,
        504,
        "Every usable pod has its maximum of concurrent requests.",
        advice="Wait until a request ends, or allow more pods (max-scale, target) or a higher "
        "containerConcurrency.",
        commands=(f"kubectl get podautoscaler {_PODS} -o yaml",),
        in_folder="Wait until a request ends, or add addresses to the Endpoints or raise "
        "containerConcurrency, in the folder {folder}",
        service_advice="Wait until a request ends, or allow more pods (max-scale, "
        "target-concurrency) or a higher container-concurrency.",
        service_commands=(_SERVICE,),
        service_in_folder="Wait until a request ends, or add addresses to the EndpointSlices or "
        "raise activator.dev/container-concurrency, in the folder {folder}",
    ),
    ReasonRow(
        Reason.OUTRANKED,
        _QUEUED,
        504,
        "Every usable pod was busy, and later requests of a higher class went first.",
        advice="Give fewer requests the class high, raise the class of this request, or allow more "
        "pods.",
        commands=(
            "kubectl get revision -n {namespace} {name} -o yaml",
            f"kubectl get podautoscaler {_PODS} -o yaml",
        ),
        in_folder="Compare activator.dev/priority and activator.dev/priority-trust of the "
        "Revision, in the folder {folder}",
        service_commands=(_SERVICE,),
        service_in_folder="Compare activator.dev/priority and activator.dev/priority-trust of the "
        "Service, in the folder {folder}",
    ),
    ReasonRow(
        Reason.QUEUE_FULL,
        _ENDED,
        503,
        "The activator has reached a limit of its queue, of bytes or of open connections.",
        advice="Find out why the requests in the queue wait; the detail names the limit.",
    ),
    ReasonRow(
        Reason.TENANT_FULL,
        _ENDED,
        503,
        "The tenant of the request has reached its limit of queued requests.",
        advice="Find out why one tenant sends so many requests; the annotation activator.dev/"
        "fair-by names the tenants.",
    ),
    ReasonRow(
        Reason.WAIT_TOO_LONG,
        _ENDED,
        503,
        "The expected wait is longer than the time-out of the request.",
        advice="Run more pods, allow more concurrent requests, or raise the time-out.",
    ),
    ReasonRow(
        Reason.WAIT_REFUSED,
        _ENDED,
        503,
        "The request would have to wait, and the annotations refuse such requests.",
        advice="Retry after the seconds of Retry-After: a pod starts in the meantime.",
    ),
    ReasonRow(
        Reason.RESPONSE_LATE,
        _ENDED,
        504,
        "A pod had the request, and did not begin to respond in time.",
        advice="Find out why the application is slow, or raise the time-out that the detail names.",
    ),
    ReasonRow(
        Reason.UPSTREAM_FAILED,
        _ENDED,
        502,
        "The pod failed the request, or the TLS handshake before it, and no retry is possible.",
        advice="Find out why the pod ended or broke the connection; the detail names the pod.",
    ),
    ReasonRow(
        Reason.NO_EVENT_STREAM,
        _ENDED,
        502,
        "The client had the head of an event stream, and the pod responded with something else.",
        advice="Find out why the application responded so; the detail names the pod, its status "
        "and its content type.",
    ),
    ReasonRow(
        Reason.NO_UPGRADE,
        _ENDED,
        501,
        "The request changes the protocol, as a WebSocket does, and its pod speaks only HTTP/2.",
        advice="Serve WebSockets from a port of HTTP/1.1, which is not named or declared as h2c.",
        service_advice="Serve WebSockets from a port of the Service with appProtocol "
        "kubernetes.io/ws, and not from one for h2c.",
    ),
    ReasonRow(
        Reason.DRAINING,
        _ENDED,
        503,
        "This activator is shutting down, and could not serve the request before its end.",
        advice="Retry at once: another activator serves.",
    ),
    ReasonRow(
        Reason.ASLEEP,
        _ENDED,
        503,
        "The service has no usable pod, and its annotations do not let this request start one.",
        advice="Nothing if the service may stay asleep. Otherwise compare the request with the "
        "annotations activator.dev/wake-*.",
    ),
    ReasonRow(
        Reason.DENIED,
        _ENDED,
        401,
        "The authorization server denied the request with 401, 403 or a redirect.",
        advice="Send valid credentials. The annotation activator.dev/auth-url names the server.",
    ),
    ReasonRow(
        Reason.NOT_AUTHORIZED,
        _ENDED,
        503,
        "The authorization server did not decide about the request: it was unreachable, late, or "
        "sent an unexpected status.",
        advice="Check whether the server of the annotation activator.dev/auth-url runs, and "
        "responds with 2xx, 3xx, 401 or 403 within 2 seconds.",
    ),
    ReasonRow(
        Reason.UNKNOWN_REVISION,
        _REFUSED,
        404,
        "The activator knows no such revision.",
        advice="Check whether the revision exists, and which revision the request names.",
        service_meaning="No annotated Service and no rule of a route object fits the request.",
    ),
    ReasonRow(
        Reason.BAD_REQUEST,
        _REFUSED,
        0,
        "The request is malformed, or exceeds a limit.",
        advice="Correct the client, or the proxy in front of the activator.",
    ),
)

#: The same rows by their reason.
ROWS: Final = {row.reason: row for row in TABLE}

#: Reasons of each cold start, however healthy. Kubernetes lists a pod without a readiness probe as
#: ready at once, so the activator's probes of it fail until the application listens.
OF_STARTS: Final = (
    *(Reason.NO_ENDPOINTS.value, Reason.PODS_ASLEEP.value, Reason.PODS_NOT_READY.value),
    Reason.PROBE_FAILING.value,
)
#: Kinds of objects that list pods: a warning about one may be why there are none.
LISTS_PODS: Final = ("Endpoints", "EndpointSlice")
#: Reasons of warnings about a Service that do not keep pods from use.
HARMLESS: Final = (
    *("", "host-conflict", "port-conflict", "limited", "invalid"),
    "takeover-cannot-limit",
)
#: Advice while a start takes no longer than usual.
STARTING: Final = "Nothing yet: a pod is starting."
#: Reasons why a request would wait although nothing is at fault: the workload sleeps.
WITHOUT_PODS: Final = Reason.NO_ENDPOINTS.value, Reason.PODS_ASLEEP.value
#: Advice instead of theirs while no request waits.
AT_ZERO: Final = "Nothing while no request waits: the first request wakes the workload."
#: The same if wrong annotations leave no authorization server, so that no request may start a pod.
NO_SERVER: Final = "Correct the annotations activator.dev/auth-*: until then, requests get 503."
#: Advice instead of that of a row, if the Revision object is gone.
DELETED: Final = (
    "Apply the Revision again if the deletion was a mistake. Otherwise its requests expire."
)
#: The same for an object of the KEDA HTTP add-on.
DELETED_ROUTE: Final = (
    "Apply the object again if the deletion was a mistake. Otherwise its requests expire."
)
#: The same for a plain Service.
DELETED_SERVICE: Final = (
    "Apply the Service again, with the annotation activator.dev/enabled, if its removal was a "
    "mistake. Otherwise its requests expire."
)
