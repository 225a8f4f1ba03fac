"""Describe the age of an activator's state: of its watches, its folder and its autoscaler link.

It reads the response of ``GET /api/v1/activator``, and leaves out missing fields. Must not import
any part of the server, nor know how a response is requested or drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final

from activator.console.responses import Node, printable
from activator.console.screen import Fact

#: Seconds of silence after which a watch may be stale. A good watch receives something each minute.
OLD: Final = 120.0


def state_of(activator: Node) -> tuple[Fact, ...]:
    """Return the state of an activator, without its revisions.

    Raises:
        ValueError: the response does not follow the API; the text names the field.
    """
    lines = tuple(chain.from_iterable(part(activator) for part in _PARTS))
    return (Fact("Activator", lines),) if lines else ()


def readiness(activator: Node) -> Iterator[str]:
    """Yield why an activator is not ready, and its certificates that expire.

    Raises:
        ValueError: as ``state_of``.
    """
    if why := activator.text("notReadyReason", default=""):
        yield not_ready(why)
    if "certificateWarnings" in activator:
        yield from activator.texts("certificateWarnings")


#: kubelet gets Knative's texts (pkg/activator/handler, cmd/activator/main.go). They do not name the
#: connection, and they name kubelet also after a Ctrl-C.
_NOT_READY: Final = {
    "connection has not yet been established": "no connection to the autoscaler",
    "received SIGTERM from kubelet": "it is shutting down, and ends after its requests",
}


def not_ready(why: str) -> str:
    """Return ``notReadyReason`` in words for people."""
    return f"not ready: {_NOT_READY.get(why, why)}"


def _watches(activator: Node) -> Iterator[str]:
    watches = activator.node("watches")
    followed = list(watches.children()) if watches is not None else []
    old: dict[str, list[tuple[str, float]]] = {}
    for kind, watch in followed:
        age, error = watch.number("ageSeconds", default=0.0), watch.text("error", default="")
        if error or age > OLD:
            old.setdefault(error, []).append((kind, age))
    for error, found in old.items():  # usually the API server is away, for all
        kinds, age = ", ".join(kind for kind, _ in found), max(age for _, age in found)
        silent = f"{kinds}: nothing received for {age:.1f}s{_because(error)}"
        yield f"{silent}; the last state is in force"
    if followed and not old:
        yield "all watches of the cluster are current"


def _folder(activator: Node) -> Iterator[str]:
    if (folder := activator.node("manifests")) is not None:
        where, ago = folder.text("folder", default="?"), folder.number("ageSeconds", default=0.0)
        yield f"objects come from {where}, read {ago:.1f}s ago"
    if (errors := activator.node("manifestErrors")) is not None:
        for path, why in errors.items():
            yield f"{path}: {printable(str(why))}"


def _autoscaler(activator: Node) -> Iterator[str]:
    for name, who in (("autoscaler", "the autoscaler"), ("scaler", "the scaler of Services")):
        if (link := activator.node(name)) is not None:
            yield _link(link, who)


def _link(link: Node, who: str) -> str:
    if link.flag("connected"):
        return f"{who} is connected"
    silent = f"; silent for {link.number('ageSeconds'):.1f}s" if "ageSeconds" in link else ""
    return f"{who} is not connected{silent}{_because(link.text('lastError', default=''))}"


_PARTS: Final = (readiness, _watches, _folder, _autoscaler)


def _because(error: str) -> str:
    return f" ({error})" if error else ""
