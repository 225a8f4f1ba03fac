"""The links to the two autoscalers: the load that each gets, and the effect of a lost link.

Knative's autoscaler scales Revisions, and this project's scaler scales Services. Must not know how
a link works; imports it only if there is a URL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from activator.autoscaler.concurrency import Stat
from activator.autoscaler.reporter import Sink, of_kind
from throttler.model import RevisionKind

if TYPE_CHECKING:  # imported where it is needed: it costs time and memory at start
    from activator.autoscaler.link import AutoscalerLink

#: Seconds for which a lost autoscaler makes the activator not ready. In Knative's Deployment,
#: kubelet's liveness probe is the same request as its readiness probe. Kubelet restarts the
#: container after twelve failures, ten seconds apart.
LOST: Final = 90.0


class Links:
    """The links of one activator.

    Arguments:
        autoscaler_url, scaler_url: ``ws://host:port``; empty for no link.
        token_file: has the token for the scaler; empty for none.

    Attributes:
        autoscaler: the link to the autoscaler of Revisions; None without one.
        scaler: the link to the scaler of Services; None without one.

    Raises:
        ValueError: a URL is no WebSocket URL.
    """

    def __init__(
        self, autoscaler_url: str = "", scaler_url: str = "", token_file: str = ""
    ) -> None:
        self.autoscaler = _link(autoscaler_url, "autoscaler")
        self.scaler = _link(scaler_url, "scaler", token_file)

    def __iter__(self) -> Iterator[AutoscalerLink]:
        return (link for link in (self.autoscaler, self.scaler) if link is not None)

    def of(self, kind: RevisionKind) -> AutoscalerLink | None:
        """Return the link to the autoscaler of a kind; None without one."""
        return self.autoscaler if kind is RevisionKind.REVISION else self.scaler

    def is_lost(self, kind: RevisionKind) -> bool:
        """Return whether the autoscaler of a kind is configured but not connected."""
        link = self.of(kind)
        return link is not None and not link.connected

    def misses_autoscaler(self) -> bool:
        """Return whether a missing autoscaler makes the activator not ready.

        After a long loss it does not. A restart of all activators would not bring the autoscaler
        back, and would end all requests. The scaler of Services never does: its fail-over takes
        up to a minute, and Services with pods do not need it.
        """
        link = self.autoscaler
        if link is None or link.connected:
            return False
        return not link.ever_connected or link.lost_for() < LOST

    def sinks(
        self, pod_name: str, on_sent_of: Callable[[list[Stat]], Callable[[], None]]
    ) -> Iterator[Sink]:
        """Yield a sink for each link. Frames have no kinds, so each peer gets its kind alone.

        Arguments:
            pod_name: the pod of this activator.
            on_sent_of: returns a function to call when a frame with these stats has been sent.
        """
        for kind in RevisionKind:
            if (link := self.of(kind)) is not None:
                from activator.autoscaler.wire import frame_sink

                yield of_kind(kind, frame_sink(link.send, pod_name, on_sent_of))


def _link(url: str, peer: str, token_file: str = "") -> AutoscalerLink | None:
    if not url:
        return None
    from activator.autoscaler.link import AutoscalerLink

    return AutoscalerLink(url, peer=peer, token_file=token_file)
