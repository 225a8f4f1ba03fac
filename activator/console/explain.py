"""Make the page of ``activator explain``: one revision, its queue, its pods, and why requests wait.

It reads the response of ``GET /api/v1/revisions/{namespace}/{name}``, and the scaler's facts about
a Service, which come first. It leaves out fields that an older or newer activator does not send.
The texts of advice are the rows of throttler/reason.py; the pages in docs/reasons say more. Must
not import any part of the server, nor know how a response is requested or drawn. Knative has no
counterpart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from shlex import quote
from typing import Final

from activator.console import client, explain_parts, status
from activator.console.explain_parts import NOT_SCALED, ScalerFacts
from activator.console.screen import Fact, Page
from throttler import reason as reasons
from throttler.reason import TABLE, Reason

#: Maximum of hosts on the page.
LISTED_HOSTS: Final = 5
#: Maximum of objects without effect on the page.
LISTED_WARNINGS: Final = 5
#: Seconds until a start may count as clearly late, however short the usual one is.
CLEARLY_LATE: Final = 10.0
_NO_SCALER: Final = Reason.SCALER_UNREACHABLE.value
#: Harmless as well where nothing scales: no workload is needed to list pods.
_OF_SCALING: Final = ("no-scalable-target", "several-targets", "unknown-target-kind")


def page(
    one: client.Json, activator: client.Json = client.NOTHING, scaled: ScalerFacts = NOT_SCALED
) -> Page:
    """Return the page of a revision. The scaler comes first if it knows why no pod can start.

    Arguments:
        activator: the response about the activator.
        scaled: the part of the scaler about a plain Service.

    Raises:
        ValueError: the response does not follow the API; the text names the field.
    """
    texts = [each.text("warning") for each in one.nodes("objectWarnings", required=False)]
    shown = tuple(f": {text}" for text in texts if text)
    known = status.state_of(activator, shown)
    waits = "reason" in one or "nextReason" in one
    wrong = _wrong(one, activator)
    own = next((each.text("reason") for each in wrong if "reason" in each), "")
    cause = (own or scaled.cause) if waits else ""
    starts = _starts(one, scaled.starting)
    facts = tuple(_facts(one, activator, cause, wrong, starts))
    comes_first = (cause and not own) or _NO_SCALER in (
        one.text("reason", ""),
        one.text("nextReason", ""),
    )
    facts = (*scaled.facts, *facts, *known) if comes_first else (*facts, *scaled.facts, *known)
    head = _headline(one, cause, starts)
    return tuple(part for part in (head, facts, *explain_parts.parts(one)) if part)


def _wrong(one: client.Json, activator: client.Json) -> list[client.Json]:
    """Return the warnings about objects that may leave a revision without pods."""
    scales = not _folder(activator) or "scaler" in activator
    harmless = reasons.HARMLESS if scales else (*reasons.HARMLESS, *_OF_SCALING)
    return [
        each
        for each in one.nodes("objectWarnings", required=False)
        if each.text("kind") in reasons.LISTS_PODS
        or each.text("reason", default="") not in harmless
    ]


def _headline(one: client.Json, cause: str, starts: bool) -> str:
    name = f"{one.text('namespace')}/{one.text('name')}"
    if (interceptor := one.node("interceptor")) is not None:
        of = "fallback of " if one.text("kind", default="") == "fallback" else ""
        name = f"{of}{interceptor.text('object')} {name}"
    elif status.is_plain(one):
        name = f"Service {name}"
    queued, unit = one.whole("queued"), status.unit(one)
    if queued:
        waits = f"1 {unit} waits" if queued == 1 else f"{queued} {unit}s wait"
        reason = one.text("reason", default="for an unknown reason")
        return f"{name}: {waits}, {cause or status.starting(one, reason) or reason}"
    if one.flag("deleted"):
        new = "404" if unit == "request" else "no pod"
        return f"{name}: deleted; no {unit} waits, a new one would get {new}"
    if "nextReason" in one:
        reason = one.text("nextReason")
        would = ", a pod is starting" if starts else f"; a new one would wait ({reason})"
        state = cause or status.starting(one, reason)
        return f"{name}: no {unit} waits{f', {state}' if state else would}"
    would = "; a new one would wait" if status.capacity(one) == "0" else ""
    return f"{name}: no {unit} waits{would}"


def _starts(one: client.Json, elsewhere: float | None) -> bool:
    """Return whether the scaler began a start, which is not clearly late and follows no failed one.

    Arguments:
        elsewhere: seconds since the scaler requested the first replica; None without a start.
    """
    if (
        elsewhere is None
        or one.text("nextReason", "") not in reasons.OF_STARTS
        or status.failed(one)
    ):
        return False
    forecast = one.part("forecast")
    usual = forecast.number("startSeconds", default=0.0)
    took = max(elsewhere, forecast.number("startingSeconds", default=0.0))
    # The usual time is a median, so many healthy starts take somewhat longer.
    return took <= (max(3 * usual, CLEARLY_LATE) if usual else status.FIRST_START)


def _folder(activator: client.Json) -> str:
    """Return the folder that the objects come from; empty for a cluster."""
    return activator.part("manifests").text("folder", default="")


def _facts(
    one: client.Json, activator: client.Json, cause: str, wrong: list[client.Json], starts: bool
) -> Iterator[Fact]:
    if "reason" in one or "nextReason" in one:
        yield from _reasons(one, activator, cause, wrong, starts)
    if count := status.failed(one):
        yield Fact("Failed starts", tuple(_failed_starts(one, count)))
    if "why" in (probe := one.part("probe")):
        yield Fact("Probe", (_probe(probe), probe.text("why")))
    if (interceptor := one.node("interceptor")) is not None:
        yield from _interceptor(one, interceptor)
    if (route := one.node("route")) is not None:
        yield from _route(route, is_open=not _is_port_taken(one))
    if status.is_plain(one) and "protocol" in one:
        yield Fact("Protocol", (_protocol(one),))
    if warnings := [*map(warning, one.nodes("objectWarnings", required=False))]:
        yield Fact("Warnings", tuple(_first(warnings)))
    yield from _failures(one)
    yield Fact("Queue", (_queue(one),))
    yield Fact("In flight", (f"{one.whole('inFlight')} of {status.capacity(one)}",))
    if silent := explain_parts.silent(one):
        yield Fact("Silent", silent)
    if "sentence" in (terms := one.part("capacityBreakdown")):
        yield Fact("Capacity", (status.worded(one, terms.text("sentence")),))
    if "readinessRule" in one:
        rule = one.text("readinessRule")
        yield Fact("Readiness", (f"a pod is usable if {_READINESS.get(rule, rule)}",))
    yield from explain_parts.policies(one)
    yield from _forecast(one.part("forecast"), status.unit(one))


def _reasons(
    one: client.Json, activator: client.Json, cause: str, wrong: list[client.Json], starts: bool
) -> Iterator[Fact]:
    """Yield why requests wait, or why a new one would.

    Arguments:
        starts: whether the scaler began a start a moment ago, for another activator.
    """
    field = "reason" if "reason" in one else "nextReason"
    reason, detail = one.text(field), one.text(f"{field}Detail", default="")
    folder = _folder(activator)
    is_service, is_route = status.is_plain(one), one.node("interceptor") is not None
    why = status.worded(one, meaning(reason, is_service=is_service)) or reason
    own = [each for each in wrong if "reason" in each and reason == Reason.NO_ENDPOINTS.value][:1]
    if own:  # there may be pods: Kubernetes lists none for these requests
        text = own[0].text("warning")
        why, detail = f"{text[0].upper()}{text[1:]}.", ""
    yield Fact("Reason", (f"{why} ({detail})" if detail else why,))
    names = one.text("namespace"), one.text("name")
    pods = one.part("route").text("podsService", default="")
    # No step by hand in the folder: the scaler writes there.
    link = activator.node("scaler") or activator.node("autoscaler")
    sleeps = reason in reasons.WITHOUT_PODS
    scaled = not folder or (link is not None and link.flag("connected"))
    steps = "" if sleeps and link is not None else folder
    todo = what_to_do(reason, *names, steps, pods=pods, is_service=is_service, is_route=is_route)
    if folder != steps:
        del todo[1:]  # there is no cluster for kubectl
    todo[:1] = [status.worded(one, each) for each in todo[:1]]  # the others are commands
    if one.flag("deleted") and is_route:
        todo = [reasons.DELETED_ROUTE]
    elif one.flag("deleted"):
        gone = reasons.DELETED_SERVICE if is_service else reasons.DELETED
        todo = [status.worded(one, gone)]
    elif reason == Reason.NO_ENDPOINTS.value and wrong:
        correct = f"In the folder {folder}, correct" if folder else "Correct"
        also = ", or what it names." if is_route else "."
        objects = (_object(each) + also if each in own else warning(each) for each in wrong)
        todo = _first([f"{correct} {each}" for each in objects])
    elif cause:
        todo = [
            "Correct that first. The Events of the Service, or the scaler's page, have the remedy."
        ]
    elif starts or (status.starting(one, reason, late=False) and not status.failed(one)):
        todo = [reasons.STARTING]
    elif field == "nextReason" and reason in reasons.WITHOUT_PODS and scaled:
        has_server = one.part("authorization").text("url", default="any") != ""
        at_zero = reasons.AT_ZERO if has_server else reasons.NO_SERVER
        todo = todo if status.failed(one) else [status.worded(one, at_zero)]
    if todo:
        yield Fact("What to do", tuple(todo))
    yield Fact("Read on", (page_of(cause if cause and (own or not wrong) else reason),))


def warning(each: client.Json) -> str:
    """Return an element of ``objectWarnings`` as a line."""
    reason = f"{each.text('reason')}: " if "reason" in each else ""
    return f"{_object(each)}: {reason}{each.text('warning')}"


def _object(warned: client.Json) -> str:
    return f"{warned.text('kind')} {warned.text('namespace')}/{warned.text('name')}"


def _failed_starts(one: client.Json, count: int) -> Iterator[str]:
    """Yield how many cold starts failed, and why the last of them did."""
    yield f"{count} in a row, without a usable pod; the next one that succeeds ends this"
    for last in [each for each in one.nodes("coldStarts", required=False) if "why" in each][:1]:
        lasted = f", for {last.number('seconds'):.1f} s" if "seconds" in last else ""
        outcome = last.text("outcome", default="under way")
        yield f"the last one: {last.text('began')}{lasted}, {outcome}; {last.text('why')}"


def _first(warnings: list[str]) -> list[str]:
    more = len(warnings) - LISTED_WARNINGS
    return [*warnings[:LISTED_WARNINGS], *([f"and {more} more"] if more > 0 else [])]


def _failures(one: client.Json) -> Iterator[Fact]:
    """Yield the last failed request, and the number of failures since the start."""
    if (last := one.node("lastFailure")) is not None:
        reason, detail = last.text("reason"), last.text("detail", default="")
        about = f" ({detail})" if detail else ""
        got = last.whole("status") or "closed,"  # a connection has no status
        text = f"{got} {reason}{about}, {last.number('secondsAgo'):.1f}s ago"
        means = status.worded(one, meaning(reason, is_service=status.is_plain(one)))
        yield Fact("Last failure", (text, means, page_of(reason)))
    failures = one.part("failures").numbers()
    if counts := ", ".join(f"{int(count)} {reason}" for reason, count in failures):
        yield Fact("Not served", (f"{counts}, since the start",))


def _queue(one: client.Json) -> str:
    queued = one.whole("queued")
    depth = f" of at most {one.whole('queueDepth')}" if "queueDepth" in one else ""
    if not queued:
        return f"0{depth}"
    held = f", {one.whole('heldBytes')} bytes in memory" if "heldBytes" in one else ""
    return f"{queued}{depth}, the first for {status.oldest(one)}{held}"


def _probe(probe: client.Json) -> str:
    """Return the probe in a few words, such as ``GET /up over HTTP``."""
    target = probe.text("target", default="")
    words = _PROBES.get(probe.text("kind"), "{kind}").format(
        kind=probe.text("kind"), target=target, of=f" of {target}" if target else ""
    )
    host = f", Host: {probe.text('host')}" if "host" in probe else ""
    return words + (" over TLS" if probe.flag("tls") else "") + host


def _protocol(one: client.Json) -> str:
    """Return the protocol of a Service's pods."""
    words = {
        "http1": "HTTP/1.1",
        "h2c": "HTTP/2",
        "tcp": "TCP: bytes pass as they come; limits and load count connections",
    }
    protocol = words.get(one.text("protocol"), one.text("protocol"))
    return f"{protocol} over TLS; certificates are not verified" if one.flag("tls") else protocol


def _is_port_taken(one: client.Json) -> bool:
    """Return whether the activator cannot listen on the port of a Service."""
    warnings = one.nodes("objectWarnings", required=False)
    return any(each.text("reason", default="") == "port-conflict" for each in warnings)


def _route(route: client.Json, *, is_open: bool) -> Iterator[Fact]:
    """Yield the hosts and the rules of a Service, and the port that is its alone."""
    hosts = route.texts("hosts")
    rules = route.texts("rules") if "rules" in route else hosts
    if rules != hosts:
        yield Fact("Rules", tuple(_first(rules)))
    elif hosts:
        yield Fact("Hosts", (explain_parts.listed(hosts, LISTED_HOSTS),))
    taken = route.part("taken").items()
    if lines := [f"{rule}: {client.printable(str(by))} has it" for rule, by in taken]:
        yield Fact("Not its own", tuple(_first(lines)))
    if "port" in route:
        direct = ", new connections reach the pods" if route.flag("reconnect") else ""
        state = direct if is_open else ", where the activator does not listen: see Warnings"
        yield Fact("Port", (f"{route.whole('port')}{state}",))


def _interceptor(one: client.Json, interceptor: client.Json) -> Iterator[Fact]:
    """Yield the target of an object of the KEDA HTTP add-on, its limits, and its own responses."""
    yield Fact("Target", (interceptor.text("target"),))
    wait = "no limit for the wait"
    if "readinessSeconds" in interceptor:
        then = "the request goes to the fallback" if interceptor.flag("fallback") else "504"
        if "problem" in interceptor:
            then = "500"
        wait = f"{interceptor.number('readinessSeconds'):g} s of waiting, then {then}"
    limits = [wait]
    if "maxPendingRequests" in interceptor:
        more = "the placeholder" if interceptor.flag("overflow") else "503"
        pending = interceptor.whole("maxPendingRequests")
        limits.append(f"{pending} waiting requests, then {more}")
    if one.number("timeoutSeconds", default=0.0):
        limits.append(f"{one.number('timeoutSeconds'):g} s from a pod to its response")
    if "requestSeconds" in interceptor:
        limits.append(f"{interceptor.number('requestSeconds'):g} s for the whole request")
    yield Fact("Limits", tuple(limits))
    if "placeholderStatus" in interceptor:
        status_ = interceptor.whole("placeholderStatus")
        yield Fact("Placeholder", (f"status {status_} while no pod is usable",))
    if static := interceptor.whole("staticRoutes", default=0):
        yield Fact("Static routes", (f"{static}; their requests start no pod",))


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
    ("startSeconds", "a start takes about {seconds:.3g} s"),
    ("drainSecondsPerRequest", "a {unit} leaves the queue about every {seconds:.3g} s"),
    ("expectedWaitSeconds", "a new {unit} would wait about {seconds:.3g} s"),
)


def _forecast(forecast: client.Json, unit: str) -> Iterator[Fact]:
    texts = [
        words.format(seconds=forecast.number(name), unit=unit)
        for name, words in _FORECAST
        if name in forecast
    ]
    if texts:
        yield Fact("Forecast", ("; ".join(texts),))


# -- advice: the meaning of a reason, and the first steps, as lines for a terminal

_PLACEHOLDER: Final = re.compile(r"\{(namespace|name|pods|folder)\}")
_ROWS: Final = {row.reason.value: row for row in TABLE}


def meaning(reason: str, *, is_service: bool = False) -> str:
    """Return a reason as a sentence; empty for an unknown word, of a newer activator.

    Arguments:
        is_service: whether a plain Service has the reason.
    """
    return _ROWS[reason].title(is_service=is_service) if reason in _ROWS else ""


def what_to_do(
    reason: str,
    namespace: str,
    name: str,
    folder: str = "",
    *,
    pods: str = "",
    is_service: bool = False,
    is_route: bool = False,
) -> list[str]:
    """Return the first steps, in lines; none for an unknown word.

    Arguments:
        is_service: whether the name is that of a plain Service, or of an object of KEDA.
        is_route: whether it is that of an object of KEDA.
        folder: the folder that the objects come from; empty for a cluster.
        pods: the Service whose EndpointSlices list the pods; empty for the plain Service itself.
    """
    if reason not in _ROWS:
        return []
    row = _ROWS[reason]
    name = pods if is_route and pods else name
    words = {"namespace": quote(namespace), "name": quote(name)}  # for a shell
    words |= {"pods": quote(pods or name), "folder": folder}
    if folder and (step := row.folder_step(is_service=is_service)):
        return [_filled(step, words)]
    sentence, commands = row.steps(is_service=is_service, is_route=is_route)
    return [sentence, *(_filled(each, words) for each in commands)]


def _filled(text: str, words: Mapping[str, str]) -> str:
    """Return a text with its placeholders replaced. All other braces stay: commands have some."""
    return _PLACEHOLDER.sub(lambda found: words[found[1]], text)


def page_of(reason: str) -> str:
    """Return the command that prints the page about a reason, also for an unknown word."""
    return f"activator reason {reason}"
