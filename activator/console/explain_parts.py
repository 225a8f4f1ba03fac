"""Make the parts of ``activator explain`` about the scaler, pods, cold starts and policies.

The activator knows why a request waits, and the scaler why there is no pod. Without a response of
the scaler the page says how to reach it. Each function may raise ValueError: the response does not
follow the API; the text names the field. Must not import any part of the servers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple
from urllib.parse import quote

from activator.console import client
from activator.console.screen import Fact, Part, Table
from activator.console.status import worded

_SERVICES: Final = "/api/v1/services"


class ScalerFacts(NamedTuple):
    """The scaler's part of a page.

    Attributes:
        cause: the reason why no pod can start; empty if nothing is known to prevent it.
        starting: seconds since the first replica was requested; None if no start is in progress.
            The request may be in another activator.
    """

    facts: tuple[Fact, ...] = ()
    cause: str = ""
    starting: float | None = None


#: The scaler was not asked.
NOT_SCALED: Final = ScalerFacts()


def ask(
    url: str, namespace: str, name: str, activator: client.Json = client.NOTHING
) -> ScalerFacts:
    """Return the scaler's facts about a Service, or why there are none.

    Arguments:
        url: the admin port of the leading scaler.
        activator: the response about the activator.
    """
    path = f"{_SERVICES}/{quote(namespace, safe='')}/{quote(name, safe='')}"
    try:
        # The scaler accepts no other name, so that no web page can read it; see OwnHosts.
        with client.Admin(url, host="localhost") as scaler:
            service = client.parse(scaler.get(path))
            cause = service.text("cause", default="")
            return ScalerFacts(tuple(facts(service)), cause, _starting(service))
    except client.NotKnown:
        lines: tuple[str, ...] = (f"the scaler at {url} knows no such Service",)
    except client.Refused as error:  # a follower, which names the leader
        lines = str(error), *_missing(url, activator)[1:]
    except (client.NoResponse, client.UnexpectedResponse, ValueError):
        lines = _missing(url, activator)
    return ScalerFacts((Fact("Scaler", lines),))


def _missing(url: str, activator: client.Json) -> tuple[str, ...]:
    """Return how to reach a scaler that does not respond. Without a cluster there may be none."""
    silent = f"no leading scaler responds at {url}"
    another = "--scaler-admin-url names another address"
    if "manifests" not in activator:
        forward = "kubectl port-forward -n activator-system service/activator-scale 8081"
        return f"{silent}; reach it with", forward, another
    if (link := activator.node("scaler")) is None:
        return ("none: the activator runs without --scaler-url, so nothing scales this Service",)
    if link.flag("connected"):
        silent = f"the scaler of this activator runs, but its admin port is not at {url}"
        another = "--scaler-admin-url names the right one; activator demo prints the command"
    return silent, another


def facts(service: client.Json) -> Iterator[Fact]:
    """Yield what the scaler knows of a Service.

    Arguments:
        service: the response to ``GET /api/v1/services/{namespace}/{name}``.

    Raises:
        ValueError: the response does not follow the API; the text names the field.
    """
    yield Fact("Scaler", (_state(service), *_why(service)))
    if (change := service.node("lastChange")) is not None:
        before, after = change.whole("before"), change.whole("after")
        count = f"{before} → {_counted(after)}"
        text = f"{change.text('at')}: {count}; {change.text('sentence')}"
        yield Fact("Last change", (text,))
    if (savings := service.node("savings")) is not None and savings.number("podSeconds"):
        yield Fact("Savings", (savings.text("sentence"),))
    findings = service.nodes("findings", required=False)
    if findings:
        yield Fact("Findings", tuple(f"{_reason(each)}{each.text('note')}" for each in findings))


def _starting(service: client.Json) -> float | None:
    """Return seconds since the first replica was requested; None if a pod is ready."""
    change = service.node("lastChange")
    if change is None or change.whole("before") or service.text("phase", default="") != "starting":
        return None
    ago = datetime.now(UTC) - datetime.fromisoformat(change.text("at"))
    return ago.total_seconds()


def _state(service: client.Json) -> str:
    replicas, count = service.part("replicas"), "replicas unknown"
    if "present" in replicas:
        wanted = f", {replicas.whole('wanted')} wanted" if "wanted" in replicas else ""
        present = _counted(replicas.whole("present"))
        count = f"{present}{wanted}, {replicas.whole('ready')} ready"
    target = service.text("target", default="no workload")
    phase = f"{service.text('phase')}: " if "phase" in service else ""
    return f"{phase}{count}; {target}, owner {service.text('owner')}"


def _counted(replicas: int) -> str:
    return f"{replicas} replica{'s' * (replicas != 1)}"


def _why(service: client.Json) -> Iterator[str]:
    if "reason" in service:
        yield f"{_reason(service)}{service.text('detail', default='')}"
    elif "sentence" in service:
        yield service.text("sentence")


def _reason(of: client.Json) -> str:
    return f"{of.text('reason')}: "


POD_COLUMNS: Final = (
    *("address", "kubernetes", "probe", "status", "probed", "state", "since"),
    *("decision", "decided by", "in flight", "last error"),
)
COLD_START_COLUMNS: Final = ("cold start", "outcome", "seconds", "requests", "pod", "phases")

#: Maximum of silent pods on the page.
LISTED_SILENT: Final = 5


def parts(one: client.Json) -> Iterator[Part]:
    """Yield the table of pods with the rules that decided, and the table of cold starts."""
    if pods := [*one.nodes("pods"), *filter(None, (one.node("clusterIP"),))]:
        rows = tuple(map(_pod_row, pods))
        styles = tuple(map(_style, pods))
        yield Table(POD_COLUMNS, rows, frozenset({"status", "probed", "since"}), styles)
        yield tuple(_rules(one, pods))
    if cold_starts := one.nodes("coldStarts", required=False):
        rows = tuple(map(_cold_start_row, cold_starts))
        names = tuple(worded(one, name) for name in COLD_START_COLUMNS)
        yield Table(names, rows, frozenset({"seconds", names[3]}))


def listed(texts: Sequence[str], most: int) -> str:
    """Return the first texts of a list, at most ``most``, and how many more there are."""
    more = len(texts) - most
    return ", ".join(texts[:most]) + (f" and {more} more" if more > 0 else "")


def silent(one: client.Json) -> tuple[str, ...]:
    """Return the pods that begin no response, the longest silence first."""
    pods = [pod for pod in one.nodes("pods") if "silentSeconds" in pod]
    pods.sort(key=lambda pod: -pod.number("silentSeconds"))
    lines = [_silence(pod) for pod in pods[:LISTED_SILENT]]
    more = len(pods) - len(lines)
    return (*lines, f"and {more} more pod{'s' * (more > 1)}") if more else tuple(lines)


def _silence(pod: client.Json) -> str:
    count, seconds = pod.whole("inFlight"), pod.number("silentSeconds")
    requests = "1 request" if count == 1 else f"{count} requests"
    return f"{pod.text('address')} has had {requests} and begun no response for {seconds:.1f}s"


def _pod_row(pod: client.Json) -> tuple[str, ...]:
    limit = str(pod.whole("limit")) if "limit" in pod else "inf"
    return (
        pod.text("address") + _zone(pod),
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


def _zone(pod: client.Json) -> str:
    own = ", own" if "near" in pod and pod.flag("near") else ""
    return f" (zone {pod.text('zone')}{own})" if "zone" in pod else ""


def _ago(of: client.Json, name: str) -> str:
    return f"{of.number(name):.1f}s" if name in of else "-"


def _rules(one: client.Json, pods: Sequence[client.Json]) -> Iterator[Fact]:
    """Yield each rule that decided about these pods, once, with its sentence."""
    sentences = Counter(
        (pod.text("decidedBy"), worded(one, pod.text("explanation")))
        for pod in pods
        if "decidedBy" in pod and "explanation" in pod
    )
    for (rule, sentence), count in sentences.items():
        yield Fact(rule, (f"({count}) {sentence}" if count < len(pods) else sentence,))


def _style(pod: client.Json) -> str:
    return {"use": "green", "wait": "yellow"}.get(pod.text("decision", default=""), "")


def _cold_start_row(cold_start: client.Json) -> tuple[str, ...]:
    phases = cold_start.part("phases")
    return (
        cold_start.text("began", default="-"),
        cold_start.text("outcome", default="under-way"),
        f"{cold_start.number('seconds'):.3f}" if "seconds" in cold_start else "-",
        str(cold_start.whole("requests")) if "requests" in cold_start else "-",
        cold_start.text("pod", default="-"),
        " ".join(f"{phase}+{seconds:.3f}" for phase, seconds in phases.numbers()),
    )


#: Pods whose adaptive limit is listed, at most.
LISTED_LIMITS: Final = 5

#: The texts of the wake rules that are lists, by their field.
_WAKE_RULES: Final = {
    "methods": "only by the methods",
    "notUserAgents": "not by the User-Agents",
    "notPaths": "not by the paths, and those below,",
}

#: Which connections of a TCP Service keep its workload awake, by activator.dev/keep-awake.
_LOAD: Final = {
    "connections": "connections: each open one is load",
    "bytes": "bytes: only a connection on which bytes pass is load",
}


def policies(one: client.Json) -> Iterator[Fact]:
    """Yield a fact for each policy in force."""
    if "loadBalancing" in one:
        yield Fact("Balancing", (_balancing(one),))
    if (sticky := one.node("sticky")) is not None:
        yield Fact("Sticky", (_sticky(sticky),))
    if one.text("adaptiveConcurrency", default="off") != "off":
        yield Fact("Adaptive", (_adaptive(one),))
    if (order := one.node("queueOrder")) is not None:
        yield Fact("Order", tuple(_order(order)))
    yield from _waking(one)
    if (waiting := one.node("whileWaiting")) is not None:
        yield Fact("Waiting", tuple(_waiting(waiting)))
    if profile := one.text("profile", default=""):
        yield Fact("Profile", (profile,))
    # Of an object of the KEDA HTTP add-on, the limits have it.
    if one.node("interceptor") is None and (wait := one.number("waitSeconds", default=0.0)):
        yield Fact("Wait", (f"at most {wait:g} s for a pod; the time-out counts from then",))


def _balancing(one: client.Json) -> str:
    """Return the policy, and its key if it has one."""
    key = one.text("hashKey", default="")
    return one.text("loadBalancing") + (f", hash key {key}" if key else "")


def _sticky(sticky: client.Json) -> str:
    """Return the key of sticky requests, and their results."""
    results = ("kept", "hashed", "overflowed", "waited")
    counts = ", ".join(f"{sticky.whole(each)} {each}" for each in results)
    return f"by {sticky.text('key')}, overflow {sticky.text('overflow')}: {counts}"


def _waiting(waiting: client.Json) -> Iterator[str]:
    """Yield what waiting clients get, how many get it, and the lease."""
    modes = waiting.texts("modes")
    after = f"; a page after {waiting.number('pageAfterSeconds'):g}s" if "page" in modes else ""
    if template := waiting.text("pageTemplate", default=""):
        after += f" by the template {template}"
    if "heartbeat" in modes:
        after += f"; heartbeats each {waiting.number('heartbeatSeconds'):g}s"
    yield ", else ".join(modes) + after
    if (counts := waiting.node("queuedByMode")) is not None:
        yield ", ".join(f"{int(count)} {mode}" for mode, count in counts.numbers())
    if left := waiting.number("leaseSeconds"):
        yield f"open pages or refused clients count as one request for {left:.1f}s"


def _adaptive(one: client.Json) -> str:
    """Return the mode of adaptive concurrency, and the limits of pods."""
    limits = [
        f"{pod.text('address')} {pod.whole('adaptiveLimit')}"
        for pod in one.nodes("pods")
        if "adaptiveLimit" in pod
    ]
    mode = one.text("adaptiveConcurrency")
    means = "a pod's limit" if mode == "on" else "limits that are not applied"
    return f"{mode}, {means}: {listed(limits, LISTED_LIMITS)}" if limits else mode


def _order(order: client.Json) -> Iterator[str]:
    """Yield how the queue orders requests, and which of them wait."""
    if priority := order.text("priority", default=""):
        selected = (
            " unless Activator-Priority selects another" if order.flag("trustsHeader") else ""
        )
        yield f"by class: {priority}{selected}"
    if (classes := order.node("queuedByClass")) is not None:
        yield ", ".join(f"{classes.whole(name)} {name}" for name in ("high", "normal", "low"))
    if fair_by := order.text("fairBy", default=""):
        flows = order.whole("flows")
        yield f"fair by {fair_by}: {flows} flow{'' if flows == 1 else 's'}"
        for flow in order.nodes("largestFlows"):
            yield f"{flow.whole('queued')} of {flow.text('flow')}"


def _waking(one: client.Json) -> Iterator[Fact]:
    """Yield which requests may start a pod, and which clients keep the revision awake."""
    if (rules := one.node("wakeRules")) is not None:
        yield Fact("Wake rules", tuple(_wake_rules(rules)))
    if (server := one.node("authorization")) is not None:
        asked = "each request" if server.flag("always") else "requests that would wait"
        cached = server.number("cacheSeconds")
        kept = f", cached for {cached:g} s" if cached else ""
        # A wrong value leaves no server to ask.
        wrong = ": 503, since an annotation activator.dev/auth-* has a wrong value"
        url = server.text("url")
        yield Fact("Authorization", (f"{asked}, by {url}{kept}" if url else f"{asked}{wrong}",))
    if load := one.text("keepAwake", default=""):
        yield Fact("Keep awake", (_LOAD.get(load, load),))
    if agents := one.nodes("keptAwakeBy", required=False):
        yield Fact("Kept awake by", tuple(map(_agent, agents)))


def _wake_rules(rules: client.Json) -> Iterator[str]:
    """Yield one line for each rule."""
    for name, text in _WAKE_RULES.items():
        if values := rules.texts(name):
            yield f"{text} {', '.join(values)}"
    if header := rules.text("requiredHeader", default=""):
        yield f"only with the header {header}"
    yield f"other requests get {rules.whole('asleepStatus')} while no pod is usable"


def _agent(agent: client.Json) -> str:
    """Return a client, and how many requests a minute it sends."""
    count = agent.whole("requestsPerMinute")
    return f"{agent.text('agent')}, {count} request{'' if count == 1 else 's'} a minute"
