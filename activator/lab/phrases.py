"""The texts of a timeline for events of pods, kubelet and activator, and for responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from activator.lab.client import ClientResponse
from activator.lab.timeline import Who

#: The effect of each switch on its pod: when it is off, and when it is on.
SWITCHES = {
    "ready": ("its readiness probe fails", "its readiness probe passes"),
    "live": ("its liveness probe fails", "its liveness probe passes"),
    "exec_ready": ("its exec readiness probe fails", "its exec readiness probe passes"),
    "running": ("its application has ended", "its application runs"),
    "sidecar_ready": (
        "its sidecar's readiness probe fails",
        "its sidecar's readiness probe passes",
    ),
    "sidecar_live": ("its sidecar's liveness probe fails", "its sidecar's liveness probe passes"),
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
            return Who.KUBERNETES, f"Endpoints of {details['revision']}: {_lists(details)}"
        case "listed in slices":
            return Who.KUBERNETES, f"EndpointSlices of {details['service']}: {_states(details)}"
        case "killing":
            return Who.KUBERNETES, f"{pod}: liveness failed; kills {details['container']}"
        case "restarted":
            return Who.KUBERNETES, f"{pod}: started {details['container']} again"
        case "switched":
            return Who.POD, f"{pod}: {', '.join(_switched(details))}"
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


def _lists(details: Mapping[str, Any]) -> str:
    return f"addresses {_names(details['ready'])}; notReadyAddresses {_names(details['not_ready'])}"


def _states(details: Mapping[str, Any]) -> str:
    words = {"ready": "ready", "not_ready": "not ready", "terminating": "terminating"}
    found = [f"{word} {_names(details[key])}" for key, word in words.items() if details[key]]
    return "; ".join(found) or "no endpoint"


def _names(pods: Sequence[str]) -> str:
    return ", ".join(pods) or "none"


def _switched(details: Mapping[str, Any]) -> list[str]:
    return [SWITCHES[name][bool(on)] for name, on in details.items() if name in SWITCHES]


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
