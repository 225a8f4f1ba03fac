"""Query the scaler about a plain Service, and make its part of the page of ``activator explain``.

The activator knows why a request waits, and the scaler why there is no pod. Without a response of
the scaler the page says how to reach it. Must not import any part of the servers.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final, NamedTuple
from urllib.parse import quote

from activator.console.client import (
    Admin,
    Json,
    NoResponse,
    NotKnown,
    Refused,
    UnexpectedResponse,
    parse,
)
from activator.console.screen import Fact

#: Seconds of a start that is not late, while none has ended before.
FIRST_START: Final = 30.0
_SERVICES: Final = "/api/v1/services"


class ScalerFacts(NamedTuple):
    """The scaler's part of a page.

    Attributes:
        cause: the reason why no pod can start; empty if nothing is known to prevent it.
        starts: whether a start began a moment ago. The request may be in another activator.
    """

    facts: tuple[Fact, ...] = ()
    cause: str = ""
    starts: bool = False


#: The scaler was not asked.
NOT_SCALED: Final = ScalerFacts()


def ask(url: str, namespace: str, name: str, activator: Json | None = None) -> ScalerFacts:
    """Return the scaler's facts about a Service, or why there are none.

    Arguments:
        url: the admin port of the leading scaler.
        activator: the response about the activator; None without one.
    """
    path = f"{_SERVICES}/{quote(namespace, safe='')}/{quote(name, safe='')}"
    try:
        # The scaler accepts no other name, so that no web page can read it; see OwnHosts.
        with Admin(url, host="localhost") as scaler:
            service = parse(scaler.get(path))
            cause = service.text("cause", default="")
            return ScalerFacts(tuple(facts(service)), cause, _starts(service))
    except NotKnown:
        lines: tuple[str, ...] = (f"the scaler at {url} knows no such Service",)
    except Refused as error:  # a follower, which names the leader
        lines = str(error), *_missing(url, activator)[1:]
    except (NoResponse, UnexpectedResponse, ValueError):
        lines = _missing(url, activator)
    return ScalerFacts((Fact("Scaler", lines),))


def _missing(url: str, activator: Json | None) -> tuple[str, ...]:
    """Return how to reach a scaler that does not respond. Without a cluster there may be none."""
    silent = f"no leading scaler responds at {url}"
    another = "--scaler-admin-url names another address"
    if activator is None or activator.node("manifests") is None:
        forward = "kubectl port-forward -n activator-system service/activator-scale 8081"
        return f"{silent}; reach it with", forward, another
    if activator.node("scaler") is None:
        return ("none: the activator runs without --scaler-url, so nothing scales this Service",)
    return silent, another


def facts(service: Json) -> Iterator[Fact]:
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
    findings = service.nodes("findings", required=False)
    if findings:
        yield Fact("Findings", tuple(f"{_reason(each)}{each.text('note')}" for each in findings))


def _starts(service: Json) -> bool:
    """Return whether the first replica was requested a moment ago, and no pod is ready yet."""
    change = service.node("lastChange")
    if change is None or change.whole("before") or service.text("phase", default="") != "starting":
        return False
    ago = datetime.now(UTC) - datetime.fromisoformat(change.text("at"))
    return ago.total_seconds() <= FIRST_START


def _state(service: Json) -> str:
    replicas = service.node("replicas")
    count = "replicas unknown"
    if replicas is not None and "present" in replicas:
        wanted = f", {replicas.whole('wanted')} wanted" if "wanted" in replicas else ""
        present = _counted(replicas.whole("present"))
        count = f"{present}{wanted}, {replicas.whole('ready')} ready"
    target = service.text("target", default="no workload")
    phase = f"{service.text('phase')}: " if "phase" in service else ""
    return f"{phase}{count}; {target}, owner {service.text('owner')}"


def _counted(replicas: int) -> str:
    return f"{replicas} replica{'s' * (replicas != 1)}"


def _why(service: Json) -> Iterator[str]:
    if "reason" in service:
        yield f"{_reason(service)}{service.text('detail', default='')}"
    elif "sentence" in service:
        yield service.text("sentence")


def _reason(of: Json) -> str:
    return f"{of.text('reason')}: "
