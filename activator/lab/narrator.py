"""Turns the toy cluster's events into lines that a person can follow.

Decides what is worth a line, in which words, and when there are too many of a kind. Must not know
processes, sockets or where the lines go.
"""

from __future__ import annotations

from datetime import datetime

from activator.lab.cluster import Event

#: Lines about answers in one second of one service; further ones are counted and told together.
MAX_ANSWERS_A_SECOND = 5


class Narrator:
    """Tells the story of each service from its events, in their order."""

    def __init__(self) -> None:
        self._asked: dict[str, float] = {}
        self._answers: dict[str, tuple[float, int]] = {}

    def lines(self, event: Event, clock: datetime) -> list[str]:
        """The lines to print for an event; none where it tells a reader nothing new.

        Arguments:
            clock: the time of day, for the line's start.
        """
        service = event.service.name
        told = self._answered(event) if event.kind == "answered" else self._other(event)
        stamp = f"{clock:%H:%M:%S}.{clock.microsecond // 1000:03d}"
        return [f"{stamp}  {service:<8} {text}" for text in told]

    def _other(self, event: Event) -> list[str]:
        service, pod, details = event.service, event.pod, event.details
        match event.kind:
            case "asked":
                return self._was_asked(event)
            case "scaled":
                return [f"pods: {details['pods']} -> {details['wanted']}"]
            case "started":
                where, delay = details["address"], service.start_after
                return [
                    f"pod {pod} started at {where}, it needs about {delay:g} s to listen; "
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
                return [f"pod {pod} is told to stop and finishes what it has"]
            case "stopped":
                return [f"pod {pod} stopped"]
            case "ended by itself":
                return [f"pod {pod} ended by itself, status {details['status']}"]
        return []

    def _was_asked(self, event: Event) -> list[str]:
        """The first request that is held; more may be told of before it is answered."""
        name = event.service.name
        if name in self._asked:
            return []
        self._asked[name] = event.at
        lack = "no pod can take it" if "reason" in event.details else "there is no pod"
        return [f"a request came and {lack}: the activator holds it"]

    def _answered(self, event: Event) -> list[str]:
        name, details = event.service.name, event.details
        asked = self._asked.pop(name, None)
        if asked is not None:
            held = (event.at - asked) * 1000
            return [f"{event.pod} answered the first held request, {held:,.0f} ms after it came"]
        since, count = self._answers.get(name, (event.at, 0))
        told = []
        if event.at - since >= 1:
            if count > MAX_ANSWERS_A_SECOND:
                told.append(f"… and {count - MAX_ANSWERS_A_SECOND:,} more answers")
            since, count = event.at, 0
        self._answers[name] = since, count + 1
        if count < MAX_ANSWERS_A_SECOND:
            took = float(str(details["took"])) * 1000
            path, status = details["path"], details["status"]
            told.append(f"{event.pod} answered {path} with {status} in {took:,.0f} ms")
        return told
