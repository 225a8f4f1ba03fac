"""The words in which a timeline tells what pods, kubelet and activator did.

Pure: a lookup with a few arguments filled in. Must not know who tells it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from activator.lab.client import Reply
from activator.lab.timeline import Who

#: What a switch that is off means for the pod, and what it means once it is on again.
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

#: Bodies longer than this are cut where they are told.
_BODY = 70


def told(kind: str, pod: str, details: Mapping[str, Any]) -> tuple[Who, str] | None:
    """Who did what, of an event of a deployment; None for what a timeline leaves out.

    Arguments:
        kind, pod, details: as :mod:`activator.lab.deployment` tells them.
    """
    match kind:
        case "started":
            return Who.KUBERNETES, f"starts {pod} at {details['address']}"
        case "listed":
            return Who.KUBERNETES, f"Endpoints of {details['revision']}: {_lists(details)}"
        case "killing":
            return Who.KUBERNETES, f"{pod}: liveness failed; kills {details['container']}"
        case "restarted":
            return Who.KUBERNETES, f"{pod}: started {details['container']} again"
        case "stopping":
            return Who.KUBERNETES, f"{pod}: is terminating"
        case "switched":
            return Who.POD, f"{pod}: {', '.join(_switched(details))}"
        case "listening":
            return Who.POD, f"{pod}: listens"
        case "probe passed":
            return Who.POD, f"{pod}: answers the activator's probe 200"
        case "probe failed":
            return Who.POD, f"{pod}: answers the activator's probe {details['status']}"
        case "draining":
            return Who.POD, f"{pod}: drains, {_requests(details['in_flight'])} in it"
        case "stopped" | "ended by itself":
            return Who.POD, f"{pod}: {kind}, status {details['status']}"
    return None


def did(kind: str, data: Mapping[str, Any]) -> str | None:
    """What the activator did, of one of its events; None for what a timeline leaves out."""
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
            return f"{name}: nobody waits any more, after {data['seconds']:.3f} s"
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


def _names(pods: Sequence[str]) -> str:
    return ", ".join(pods) or "none"


def _switched(details: Mapping[str, Any]) -> list[str]:
    return [SWITCHES[name][bool(on)] for name, on in details.items() if name in SWITCHES]


def answered(method: str, target: str, reply: Reply) -> str:
    """What a client saw; a status of 0 is of a request without an answer."""
    took = f"{reply.took * 1000:,.0f} ms"
    first = reply.body.partition("\n")[0]
    body = first if len(first) <= _BODY else f"{first[:_BODY]}…"
    if not reply.status:
        return f"{method} {target}: no answer after {took}: {body}"
    reason = reply.headers.get("activator-reason")
    why = f" (Activator-Reason: {reason})" if reason else ""
    return f"{method} {target}: {reply.status} after {took}: {body or 'no body'}{why}"


def seen(value: object) -> str:
    """What was seen in place of what must be so."""
    if isinstance(value, Reply):
        return f"{value.status} {value.body!r}"
    if isinstance(value, list):
        return f"[{', '.join(map(seen, value))}]"
    return str(value)


def known(view: Mapping[str, Any]) -> str:
    """What the activator's API says of a revision, in a line."""
    if not view:
        return "nothing"
    pods = "; ".join(
        f"{pod['address']}: Kubernetes {pod['kubernetes']}, own probe {pod['probe']}, "
        f"{pod['decision']} ({pod['decidedBy']}), {pod['inFlight']} in flight"
        for pod in view["pods"]
    )
    return f"{view['queued']} queued, reason {view['reason']}; pods: {pods or 'none'}"
