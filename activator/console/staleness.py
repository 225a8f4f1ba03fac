"""What an activator knows of cluster and autoscaler, and how old that is, for people at a prompt.

The client side of ``GET /api/v1/activator``. What it does not tell is left out. Must not import any
part of the server, nor know how an answer is asked for or drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final

from activator.console.responses import Node, printable
from activator.console.screen import Fact

#: Seconds of silence after which what is known may be old. A watch says something once a minute at
#: least while all is well.
OLD: Final = 120.0


def knowledge(activator: Node) -> tuple[Fact, ...]:
    """Return what there is to say of an activator, besides its revisions.

    Raises:
        ValueError: the answer is not what the API is to send; names the field.
    """
    lines = tuple(chain.from_iterable(tell(activator) for tell in _TELL))
    return (Fact("Activator", lines),) if lines else ()


def _readiness(activator: Node) -> Iterator[str]:
    if why := activator.text("notReadyReason", default=""):
        yield not_ready(why)


#: What kubelet is told is Knative's text (pkg/activator/handler and cmd/activator/main.go there),
#: which does not say whose connection, and blames kubelet for a Ctrl-C.
_NOT_READY: Final = {
    "connection has not yet been established": "no connection to the autoscaler",
    "received SIGTERM from kubelet": "it was told to stop, and ends once its requests have",
}


def not_ready(why: str) -> str:
    """Return in words for people what ``notReadyReason`` says."""
    return f"not ready: {_NOT_READY.get(why, why)}"


def _watches(activator: Node) -> Iterator[str]:
    watches = activator.node("watches")
    followed = list(watches.children()) if watches is not None else []
    old = []
    for kind, watch in followed:
        age, error = watch.number("ageSeconds", default=0.0), watch.text("error", default="")
        if error or age > OLD:
            old.append(f"{kind}: nothing heard for {age:.1f}s{_because(error)}")
    yield from (f"{line}; the last state is in force" for line in old)
    if followed and not old:
        yield "all that is followed of the cluster is fresh"


def _folder(activator: Node) -> Iterator[str]:
    if (folder := activator.node("manifests")) is not None:
        where, ago = folder.text("folder", default="?"), folder.number("ageSeconds", default=0.0)
        yield f"objects come from {where}, looked at {ago:.1f}s ago"
    if (errors := activator.node("manifestErrors")) is not None:
        for path, why in errors.items():
            yield f"{path}: {printable(str(why))}"


def _autoscaler(activator: Node) -> Iterator[str]:
    if (link := activator.node("autoscaler")) is None:
        return
    if link.flag("connected"):
        yield "the autoscaler is connected"
    else:
        silent = f"; silent for {link.number('ageSeconds'):.1f}s" if "ageSeconds" in link else ""
        why = _because(link.text("lastError", default=""))
        yield f"the autoscaler is not connected{silent}{why}"


_TELL: Final = (_readiness, _watches, _folder, _autoscaler)


def _because(error: str) -> str:
    return f" ({error})" if error else ""
