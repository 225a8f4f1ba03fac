"""Turn the toy cluster's events into lines for the demo's terminal.

It leaves out events that add nothing, and counts responses when there are many.
"""

from __future__ import annotations

from datetime import datetime

from activator.lab.cluster import DemoEvent

#: Lines about responses per second and service; one line counts the rest.
MAX_RESPONSES_PER_SECOND = 5


class Narrator:
    """Makes lines from the events of all services, in their order."""

    def __init__(self) -> None:
        self._queued_since: dict[str, float] = {}
        self._responses: dict[str, tuple[float, int]] = {}

    def lines(self, event: DemoEvent, clock: datetime) -> list[str]:
        """Return the lines to print for an event; none if it adds nothing.

        Arguments:
            clock: the time of day, for the start of each line.
        """
        service = event.service.name
        lines = self._on_response(event) if event.kind == "responded" else self._other(event)
        stamp = f"{clock:%H:%M:%S}.{clock.microsecond // 1000:03d}"
        return [f"{stamp}  {service:<8} {text}" for text in lines]

    def _other(self, event: DemoEvent) -> list[str]:
        service, pod, details = event.service, event.pod, event.details
        match event.kind:
            case "queued":
                return self._on_queued(event)
            case "scaled":
                return [f"pods: {details['pods']} -> {details['wanted']}"]
            case "started":
                where, delay = details["address"], service.start_after
                return [
                    f"pod {pod} starts at {where} and needs about {delay:g} s to listen; "
                    f"its switches are at http://{details['switches']}/"
                ]
            case "listening":
                return [f"pod {pod} listens"]
            case "probe passed":
                return [f"pod {pod} passed the activator's probe"]
            case "probe failed":
                return [f"pod {pod} failed the activator's probe: {details['status']}"]
            case "ready":
                return [f"pod {pod} is ready for Kubernetes as well, which checks less often"]
            case "not ready":
                return [f"pod {pod} is no longer ready for Kubernetes"]
            case "draining":
                return [f"pod {pod} stops: it finishes its requests"]
            case "stopped":
                return [f"pod {pod} stopped"]
            case "ended by itself":
                return [f"pod {pod} ended by itself, status {details['status']}"]
        return []

    def _on_queued(self, event: DemoEvent) -> list[str]:
        """Return a line for the first queued request; none for others until its response."""
        name = event.service.name
        if name in self._queued_since:
            return []
        self._queued_since[name] = event.at
        lack = "no pod can take it" if "reason" in event.details else "there is no pod"
        return [f"a request arrives and {lack}: the activator queues it"]

    def _on_response(self, event: DemoEvent) -> list[str]:
        name, details = event.service.name, event.details
        since = self._queued_since.pop(name, None)
        if since is not None:
            waited = (event.at - since) * 1000
            return [
                f"{event.pod} responds to the first queued request, {waited:,.0f} ms after its "
                "arrival"
            ]
        since, count = self._responses.get(name, (event.at, 0))
        lines = []
        if event.at - since >= 1:
            if count > MAX_RESPONSES_PER_SECOND:
                lines.append(f"… and {count - MAX_RESPONSES_PER_SECOND:,} more responses")
            since, count = event.at, 0
        self._responses[name] = since, count + 1
        if count < MAX_RESPONSES_PER_SECOND:
            took = float(str(details["took"])) * 1000
            path, status = details["path"], details["status"]
            lines.append(f"{event.pod} responds to {path} with {status} in {took:,.0f} ms")
        return lines
