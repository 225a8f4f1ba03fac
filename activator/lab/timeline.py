"""The timeline of one scenario: events with time and actor, checks with results, and their texts.

Times are arguments, in seconds of any clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from activator.lab.programs import ClientResponse


class Who(Enum):
    """The actor of an entry."""

    FAULT = "fault"
    POD = "pod"
    KUBERNETES = "kubernetes"
    ACTIVATOR = "activator"
    SCALER = "scaler"
    CLIENT = "client"
    #: An expectation of the script, with its result.
    CHECK = "check"


class TimelineEntry(NamedTuple):
    """One event or check.

    Attributes:
        at: seconds since the scenario began.
        passed: whether a check passed; None for an event.
    """

    at: float
    who: Who
    what: str
    passed: bool | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the JSON object that docs/how-to/lab.md describes."""
        found: dict[str, Any] = {"at": round(self.at, 3), "who": self.who.value, "what": self.what}
        if self.passed is not None:
            found["passed"] = self.passed
        return found


#: Seconds within which equal texts of the activator count as repetitions. Otherwise a pod that is
#: retried forty times a second would hide all other events.
REPEAT_WITHIN = 0.5
#: Entries for equal texts; the rest are counted.
SHOWN_REPEATS = 2


class Timeline:
    """The record of one scenario."""

    def __init__(self) -> None:
        self._began = 0.0
        # Series of equal texts: the text, the time of the last, and their number.
        self._runs: dict[str, tuple[float, int]] = {}
        self._ended: list[tuple[str, tuple[float, int]]] = []
        self._entries: list[TimelineEntry] = []

    def begin(self, at: float) -> None:
        """Set the time at which the scenario begins; earlier entries get the time 0."""
        self._began = at

    def note(self, at: float, who: Who, what: str) -> TimelineEntry | None:
        """Add an event; its time may be earlier than that of the last entry.

        Returns:
            The entry; None for a repetition that is only counted.
        """
        if who is Who.ACTIVATOR and self._is_repeated(at, what):
            return None
        return self._take(TimelineEntry(max(0.0, at - self._began), who, what))

    def _is_repeated(self, at: float, what: str) -> bool:
        last, count = self._runs.get(what, (at, 0))
        if at - last > REPEAT_WITHIN:
            self._ended.append((what, (last, count)))
            count = 0
        self._runs[what] = at, count + 1
        return count >= SHOWN_REPEATS

    def check(self, at: float, expected: str, passed: bool, seen: str) -> TimelineEntry:
        """Add a check and its result.

        Arguments:
            expected: the expectation as a sentence.
            seen: the observed value; the entry has it only if the check failed.
        """
        what = expected if passed else f"{expected}; seen: {seen}"
        return self._take(TimelineEntry(max(0.0, at - self._began), Who.CHECK, what, passed))

    def _take(self, entry: TimelineEntry) -> TimelineEntry:
        self._entries.append(entry)
        return entry

    @property
    def entries(self) -> list[TimelineEntry]:
        """All entries by time; entries of the same time in the order of their addition."""
        counted = [
            TimelineEntry(
                last - self._began, Who.ACTIVATOR, f"{what} ({_more(count - SHOWN_REPEATS)})"
            )
            for what, (last, count) in [*self._ended, *self._runs.items()]
            if count > SHOWN_REPEATS
        ]
        return sorted([*self._entries, *counted], key=lambda entry: entry.at)

    @property
    def passed(self) -> bool:
        """Whether there was at least one check, and all checks passed."""
        checks = [entry.passed for entry in self._entries if entry.who is Who.CHECK]
        return bool(checks) and all(checks)


def _more(times: int) -> str:
    return "once more" if times == 1 else f"{times} times more"


_PROBES = {
    "ready": "readiness probe",
    "live": "liveness probe",
    "exec_ready": "exec readiness probe",
    "sidecar_ready": "sidecar's readiness probe",
    "sidecar_live": "sidecar's liveness probe",
}
#: The effect of each switch on its pod: when it is off, and when it is on.
SWITCHES = {
    **{name: (f"its {probe} fails", f"its {probe} passes") for name, probe in _PROBES.items()},
    "running": ("its application has ended", "its application runs"),
    "draining": ("it no longer drains", "it drains"),
}

#: Longest part of a body in a line, in characters.
_BODY = 70


def of_pod_event(kind: str, pod: str, details: Mapping[str, Any]) -> tuple[Who, str] | None:
    """Return actor and text of an event of a deployment; None for an event that is left out.

    Arguments:
        kind, pod, details: the event, as `activator.lab.cluster.ToyCluster` reports it.
    """
    match kind:
        case "scaled":
            replicas = f"replicas {details['pods']} -> {details['wanted']}"
            return Who.KUBERNETES, f"Deployment {details['deployment']}: {replicas}"
        case "started":
            return Who.KUBERNETES, f"starts {pod} at {details['address']}"
        case "listed":
            ready, others = _names(details["ready"]), _names(details["not_ready"])
            lists = f"addresses {ready}; notReadyAddresses {others}"
            return Who.KUBERNETES, f"Endpoints of {details['revision']}: {lists}"
        case "listed in slices":
            return Who.KUBERNETES, f"EndpointSlices of {details['service']}: {_states(details)}"
        case "killing":
            return Who.KUBERNETES, f"{pod}: liveness failed; kills {details['container']}"
        case "restarted":
            return Who.KUBERNETES, f"{pod}: started {details['container']} again"
        case "switched":
            found = (SWITCHES[name][bool(on)] for name, on in details.items() if name in SWITCHES)
            return Who.POD, f"{pod}: {', '.join(found)}"
        case "listening":
            return Who.POD, f"{pod}: listens"
        case "probe passed":
            return Who.POD, f"{pod}: responds to the activator's probe with 200"
        case "probe failed":
            return Who.POD, f"{pod}: responds to the activator's probe with {details['status']}"
        case "draining":
            return Who.POD, f"{pod}: drains, {_requests(details['in_flight'])} in flight"
        case "stopped" | "ended by itself":
            return Who.POD, f"{pod}: {kind}, status {details['status']}"
    return None


def of_activator_event(kind: str, data: Mapping[str, Any]) -> str | None:
    """Return the text of an event of the activator; None for an event that is left out."""
    name = str(data.get("revision", "")).partition("/")[2]
    match kind:
        case "pod-changed":
            listed = "ready" if data["ready"] else "not ready"
            return (
                f"{name}: {data['address']} {_change(data)} (Kubernetes: {listed}): {data['why']}"
            )
        case "capacity-changed":
            return f"{name}: capacity {_limit(data['was'])} -> {_limit(data['capacity'])}"
        case "queue-began":
            detail = f"; {data['detail']}" if data.get("detail") else ""
            return f"{name}: requests begin to wait: {data['reason']}{detail}"
        case "queue-ended":
            return f"{name}: no request waits any more, after {data['seconds']:.3f} s"
    return None


def _change(data: Mapping[str, Any]) -> str:
    was, state = data["was"] or "new", data["state"]
    return f"is {state}" if was == state else f"{was} -> {state}"


def _limit(capacity: int | None) -> str:
    return "without limit" if capacity is None else str(capacity)


def _requests(count: int) -> str:
    return "1 request" if count == 1 else f"{count} requests"


def _states(details: Mapping[str, Any]) -> str:
    words = {"ready": "ready", "not_ready": "not ready", "terminating": "terminating"}
    found = [f"{word} {_names(details[key])}" for key, word in words.items() if details[key]]
    return "; ".join(found) or "no endpoint"


def _names(pods: Sequence[str]) -> str:
    return ", ".join(pods) or "none"


def of_response(method: str, target: str, response: ClientResponse) -> str:
    """Return the text of a client's response; a status of 0 stands for no response."""
    took = f"{response.took * 1000:,.0f} ms"
    first = response.body.partition("\n")[0]
    body = first if len(first) <= _BODY else f"{first[:_BODY]}…"
    if not response.status:
        return f"{method} {target}: no response after {took}: {body}"
    reason = response.headers.get("activator-reason")
    why = f" (Activator-Reason: {reason})" if reason else ""
    return f"{method} {target}: {response.status} after {took}: {body or 'no body'}{why}"


def of_value(value: object) -> str:
    """Return the text of an observed value, for a failed check."""
    if isinstance(value, ClientResponse):
        return f"{value.status} {value.body!r}"
    if isinstance(value, list):
        return f"[{', '.join(map(of_value, value))}]"
    return str(value)


def of_view(view: Mapping[str, Any]) -> str:
    """Return the API's view of a revision in one line."""
    if not view:
        return "nothing"
    pods = "; ".join(
        f"{pod['address']}: Kubernetes {pod['kubernetes']}, activator's probe {pod['probe']}, "
        f"{pod['decision']} ({pod['decidedBy']}), {pod['inFlight']} in flight"
        for pod in view["pods"]
    )
    return f"{view['queued']} queued, reason {view['reason']}; pods: {pods or 'none'}"
