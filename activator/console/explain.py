"""Make the page of ``activator explain``: one revision, its queue, its pods, and why requests wait.

It reads the response of ``GET /api/v1/revisions/{namespace}/{name}``, and leaves out fields that an
older or newer activator does not send. Must not import any part of the server, nor know how a
response is requested or drawn. Knative has no counterpart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from difflib import get_close_matches
from typing import Final

from activator.console import advice, status
from activator.console.responses import Node
from activator.console.screen import Fact, Page, Part, Table
from activator.console.staleness import state_of
from throttler.reason import AT_ZERO, DELETED, DELETED_SERVICE, Reason

POD_COLUMNS: Final = (
    *("address", "kubernetes", "probe", "status", "probed", "state", "since"),
    *("decision", "decided by", "in flight", "last error"),
)
COLD_START_COLUMNS: Final = ("cold start", "outcome", "seconds", "requests", "pod", "phases")

#: Maximum of silent pods on the page.
LISTED_SILENT: Final = 5

#: Maximum of hosts on the page.
LISTED_HOSTS: Final = 5

#: Maximum of objects without effect on the page.
LISTED_WARNINGS: Final = 5
_LISTS_PODS: Final = ("Endpoints", "EndpointSlice")

#: Maximum of similar names for an unknown one.
OFFERED: Final = 5


def page(one: Node, activator: Node | None = None, scaled: tuple[Fact, ...] = ()) -> Page:
    """Return the page of a revision.

    Arguments:
        activator: the response about the activator; None without one.
        scaled: the facts of the scaler about a plain Service.

    Raises:
        ValueError: the response does not follow the API; the text names the field.
    """
    pods = [*one.nodes("pods"), *filter(None, (one.node("clusterIP"),))]
    known = state_of(activator) if activator is not None else ()
    parts: list[Part] = [_headline(one), (*_facts(one, _folder(activator)), *scaled, *known)]
    if pods:
        rows = tuple(map(_pod_row, pods))
        styles = tuple(map(_style, pods))
        parts.append(Table(POD_COLUMNS, rows, frozenset({"status", "probed", "since"}), styles))
        parts.append(tuple(_rules(pods)))
    if cold_starts := one.nodes("coldStarts", required=False):
        rows = tuple(map(_cold_start_row, cold_starts))
        parts.append(Table(COLD_START_COLUMNS, rows, frozenset({"seconds", "requests"})))
    return tuple(part for part in parts if part)


def _headline(one: Node) -> str:
    name = f"{one.text('namespace')}/{one.text('name')}"
    if status.is_service(one):
        name = f"Service {name}"
    queued = one.whole("queued")
    if queued:
        waits = "1 request waits" if queued == 1 else f"{queued} requests wait"
        return f"{name}: {waits}, {one.text('reason', default='for an unknown reason')}"
    if status.deleted(one):
        return f"{name}: deleted; no request waits, a new one would get 404"
    if "nextReason" in one:
        return f"{name}: no request waits, a new one would, {one.text('nextReason')}"
    would = ", a new one would" if status.capacity(one) == "0" else ""
    return f"{name}: no request waits{would}"


def _folder(activator: Node | None) -> str:
    """Return the folder that the objects come from; empty for a cluster."""
    folder = activator.node("manifests") if activator is not None else None
    return folder.text("folder", default="") if folder is not None else ""


def _facts(one: Node, folder: str) -> Iterator[Fact]:
    if "reason" in one or "nextReason" in one:
        yield from _reason(one, folder)
    if (probe := one.node("probe")) is not None and "why" in probe:
        yield Fact("Probe", (_probe(probe), probe.text("why")))
    if (route := one.node("route")) is not None:
        yield from _route(route)
    if status.is_service(one) and "protocol" in one:
        yield Fact("Protocol", (_protocol(one),))
    if warnings := _warnings(one):
        yield Fact("Warnings", tuple(_first(warnings)))
    yield from _failures(one)
    yield Fact("Queue", (_queue(one),))
    yield Fact("In flight", (f"{one.whole('inFlight')} of {status.capacity(one)}",))
    if silent := _silent(one):
        yield Fact("Silent", silent)
    terms = one.node("capacityBreakdown")
    if terms is not None and "sentence" in terms:
        yield Fact("Capacity", (terms.text("sentence"),))
    if "readinessRule" in one:
        rule = one.text("readinessRule")
        yield Fact("Readiness", (f"a pod is usable if {_READINESS.get(rule, rule)}",))
    if "loadBalancing" in one:
        yield Fact("Balancing", (_balancing(one),))
    if (forecast := one.node("forecast")) is not None:
        yield from _forecast(forecast)


def _reason(one: Node, folder: str) -> Iterator[Fact]:
    """Yield why requests wait, or why a new one would."""
    field = "reason" if "reason" in one else "nextReason"
    reason, detail = one.text(field), one.text(f"{field}Detail", default="")
    is_service = status.is_service(one)
    why = advice.meaning(reason, is_service=is_service) or reason
    yield Fact("Reason", (f"{why} ({detail})" if detail else why,))
    names = one.text("namespace"), one.text("name")
    todo = advice.what_to_do(reason, *names, folder, is_service=is_service)
    if status.deleted(one):
        todo = [DELETED_SERVICE if is_service else DELETED]
    elif reason == Reason.NO_ENDPOINTS.value and (wrong := _warnings(one, _LISTS_PODS)):
        correct = f"In the folder {folder}, correct" if folder else "Correct"
        todo = _first([f"{correct} {text}" for text in wrong])
    elif field == "nextReason" and reason == Reason.NO_ENDPOINTS.value and not folder:
        todo.insert(0, AT_ZERO)
    if todo:
        yield Fact("What to do", tuple(todo))
    yield Fact("Read on", (advice.page_of(reason),))


def _warnings(one: Node, kinds: Collection[str] = ()) -> list[str]:
    """Return the objects without effect, each with its warning.

    Arguments:
        kinds: only objects of these kinds; empty for all kinds.
    """
    return [
        warning(each)
        for each in one.nodes("objectWarnings", required=False)
        if not kinds or each.text("kind") in kinds
    ]


def warning(each: Node) -> str:
    """Return an element of ``objectWarnings`` as a line."""
    reason = f"{each.text('reason')}: " if "reason" in each else ""
    name = f"{each.text('kind')} {each.text('namespace')}/{each.text('name')}"
    return f"{name}: {reason}{each.text('warning')}"


def _first(warnings: list[str]) -> list[str]:
    more = len(warnings) - LISTED_WARNINGS
    return [*warnings[:LISTED_WARNINGS], *([f"and {more} more"] if more > 0 else [])]


def _failures(one: Node) -> Iterator[Fact]:
    """Yield the last failed request, and the number of failures since the start."""
    if (last := one.node("lastFailure")) is not None:
        reason, detail = last.text("reason"), last.text("detail", default="")
        about = f" ({detail})" if detail else ""
        text = f"{last.whole('status')} {reason}{about}, {last.number('secondsAgo'):.1f}s ago"
        meaning = advice.meaning(reason, is_service=status.is_service(one))
        yield Fact("Last failure", (text, meaning, advice.page_of(reason)))
    if (failures := one.node("failures")) is not None:
        counts = ", ".join(f"{int(count)} {reason}" for reason, count in failures.numbers())
        if counts:
            yield Fact("Not served", (f"{counts}, since the start",))


def _queue(one: Node) -> str:
    queued = one.whole("queued")
    depth = f" of at most {one.whole('queueDepth')}" if "queueDepth" in one else ""
    if not queued:
        return f"0{depth}"
    held = f", {one.whole('heldBytes')} bytes in memory" if "heldBytes" in one else ""
    return f"{queued}{depth}, the first for {status.oldest(one)}{held}"


def _silent(one: Node) -> tuple[str, ...]:
    """Return the pods that begin no response, the longest silence first."""
    pods = [pod for pod in one.nodes("pods") if "silentSeconds" in pod]
    pods.sort(key=lambda pod: -pod.number("silentSeconds"))
    lines = [_silence(pod) for pod in pods[:LISTED_SILENT]]
    more = len(pods) - len(lines)
    return (*lines, f"and {more} more pod{'s' * (more > 1)}") if more else tuple(lines)


def _silence(pod: Node) -> str:
    count, seconds = pod.whole("inFlight"), pod.number("silentSeconds")
    requests = "1 request" if count == 1 else f"{count} requests"
    return f"{pod.text('address')} has had {requests} and begun no response for {seconds:.1f}s"


def _probe(probe: Node) -> str:
    """Return the probe in a few words, such as ``GET /up over HTTP``."""
    target = probe.text("target", default="")
    words = _PROBES.get(probe.text("kind"), "{kind}").format(
        kind=probe.text("kind"), target=target, of=f" of {target}" if target else ""
    )
    host = f", Host: {probe.text('host')}" if "host" in probe else ""
    return words + (" over TLS" if probe.flag("tls") else "") + host


def _protocol(one: Node) -> str:
    """Return the protocol of a Service's pods."""
    words = {"http1": "HTTP/1.1", "h2c": "HTTP/2"}
    protocol = words.get(one.text("protocol"), one.text("protocol"))
    return f"{protocol} over TLS; certificates are not verified" if one.flag("tls") else protocol


def _route(route: Node) -> Iterator[Fact]:
    """Yield the hosts of a Service, and the port that is its alone."""
    hosts = route.texts("hosts")
    more = len(hosts) - LISTED_HOSTS
    listed = ", ".join(hosts[:LISTED_HOSTS]) + (f" and {more} more" if more > 0 else "")
    if hosts:
        yield Fact("Hosts", (listed,))
    if "port" in route:
        direct = ", new connections reach the pods" if route.flag("reconnect") else ""
        yield Fact("Port", (f"{route.whole('port')}{direct}",))


def _balancing(one: Node) -> str:
    """Return the policy, and its key if it has one."""
    key = one.text("hashKey", default="")
    return one.text("loadBalancing") + (f", hash key {key}" if key else "")


#: The meaning of each word of ``readinessRule``.
_KUBERNETES_TOO: Final = "it passes the activator's probe and Kubernetes lists it as ready: "
_READINESS: Final = {
    "probe": "it passes the activator's probe",
    "exec-readiness-probe": f"{_KUBERNETES_TOO}exec-readiness-probe",
    "startup-probe": f"{_KUBERNETES_TOO}startup-probe",
    "sidecar-readiness-probe": f"{_KUBERNETES_TOO}sidecar-readiness-probe",
    "kubernetes-policy": f"{_KUBERNETES_TOO}kubernetes-policy",
    "no-probe": "Kubernetes lists it as ready; the activator does not probe",
}

#: The forms of a probe, by its kind.
_PROBES: Final = {
    "http": "GET {target}",
    "grpc": "health check{of} by gRPC",
    "tcp": "TCP connect",
    "none": "none",
}

_FORECAST: Final = (
    ("startSeconds", "a start takes about {:.3g} s"),
    ("drainSecondsPerRequest", "a request leaves the queue about every {:.3g} s"),
    ("expectedWaitSeconds", "a new request would wait about {:.3g} s"),
)


def _forecast(forecast: Node) -> Iterator[Fact]:
    texts = [words.format(forecast.number(name)) for name, words in _FORECAST if name in forecast]
    if texts:
        yield Fact("Forecast", ("; ".join(texts),))


# -- pods ------------------------------------------------------------------------------------------


def _pod_row(pod: Node) -> tuple[str, ...]:
    limit = str(pod.whole("limit")) if "limit" in pod else "inf"
    return (
        pod.text("address"),
        pod.text("kubernetes", default="-"),
        pod.text("probe", default="-"),
        str(pod.whole("probeStatus")) if "probeStatus" in pod else "-",
        _ago(pod, "lastProbeSecondsAgo"),
        pod.text("state", default="-"),
        _ago(pod, "stateSecondsAgo"),
        pod.text("decision", default="-"),
        pod.text("decidedBy", default="-"),
        f"{pod.whole('inFlight')}/{limit}",
        pod.text("lastError", default="-"),
    )


def _ago(of: Node, name: str) -> str:
    return f"{of.number(name):.1f}s" if name in of else "-"


def _rules(pods: Sequence[Node]) -> Iterator[Fact]:
    """Yield each rule that decided about these pods, once, with its sentence."""
    sentences = Counter(
        (pod.text("decidedBy"), pod.text("explanation"))
        for pod in pods
        if "decidedBy" in pod and "explanation" in pod
    )
    for (rule, sentence), count in sentences.items():
        yield Fact(rule, (f"({count}) {sentence}" if count < len(pods) else sentence,))


def _style(pod: Node) -> str:
    return {"use": "green", "wait": "yellow"}.get(pod.text("decision", default=""), "")


# -- cold starts --------------------------------------------------------------------------------


def _cold_start_row(cold_start: Node) -> tuple[str, ...]:
    phases = cold_start.node("phases")
    reached = phases.numbers() if phases is not None else ()
    return (
        cold_start.text("began", default="-"),
        cold_start.text("outcome", default="under-way"),
        f"{cold_start.number('seconds'):.3f}" if "seconds" in cold_start else "-",
        str(cold_start.whole("requests")) if "requests" in cold_start else "-",
        cold_start.text("pod", default="-"),
        " ".join(f"{phase}+{seconds:.3f}" for phase, seconds in reached),
    )


# -- unknown names ----------------------------------------------------------------------


def key(words: str, given: str | None = None) -> tuple[str, str]:
    """Return the namespace and the name; the default namespace is ``default``.

    Arguments:
        given: the namespace of the option, if it was given.

    Raises:
        ValueError: there are two slashes, an empty part, or two namespaces.
    """
    namespace, slash, name = words.rpartition("/")
    if not name or (slash and not namespace) or "/" in namespace:
        raise ValueError(f"expected NAMESPACE/REVISION or REVISION, got {words!r}")
    if given and namespace not in ("", given):
        raise ValueError(f"--namespace is {given!r}, and the revision is {words!r}")
    return namespace or given or "default", name


def near(response: Node, namespace: str, name: str) -> list[str]:
    """Return similar names, the most similar first.

    Arguments:
        response: response to ``GET /api/v1/revisions``.

    Raises:
        ValueError: as ``page``.
    """
    known = [(one.text("namespace"), one.text("name")) for one in response.nodes("revisions")]
    whole = {f"{ns}/{revision}": None for ns, revision in known}
    elsewhere = [f"{ns}/{revision}" for ns, revision in known if revision == name]
    # The name of a Service stands for its newest revision.
    versions = [f"{ns}/{r}" for ns, r in known if ns == namespace and r.startswith(name)]
    alike = get_close_matches(f"{namespace}/{name}", whole, n=OFFERED, cutoff=0.6)
    return list(dict.fromkeys((*elsewhere, *sorted(versions, reverse=True), *alike)))[:OFFERED]
