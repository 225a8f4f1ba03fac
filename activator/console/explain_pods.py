"""Make the tables of ``activator explain``: pods with the decision about each, and cold starts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from activator.console.responses import Node
from activator.console.screen import Fact, Part, Table

POD_COLUMNS: Final = (
    *("address", "kubernetes", "probe", "status", "probed", "state", "since"),
    *("decision", "decided by", "in flight", "last error"),
)
COLD_START_COLUMNS: Final = ("cold start", "outcome", "seconds", "requests", "pod", "phases")

#: Maximum of silent pods on the page.
LISTED_SILENT: Final = 5


def parts(one: Node) -> Iterator[Part]:
    """Yield the table of pods with the rules that decided, and the table of cold starts.

    Raises:
        ValueError: the response does not follow the API; the text names the field.
    """
    if pods := [*one.nodes("pods"), *filter(None, (one.node("clusterIP"),))]:
        rows = tuple(map(_pod_row, pods))
        styles = tuple(map(_style, pods))
        yield Table(POD_COLUMNS, rows, frozenset({"status", "probed", "since"}), styles)
        yield tuple(_rules(pods))
    if cold_starts := one.nodes("coldStarts", required=False):
        rows = tuple(map(_cold_start_row, cold_starts))
        yield Table(COLD_START_COLUMNS, rows, frozenset({"seconds", "requests"}))


def silent(one: Node) -> tuple[str, ...]:
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
