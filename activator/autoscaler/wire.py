"""Stats as the autoscaler reads them: one ``metrics.WireStatMessages`` in protobuf per frame.

Pure. Knows neither the transport of frames nor the time of stats. Knative:
pkg/autoscaler/metrics/stat.proto and pkg/activator/stat_reporter.go. Difference: a frame has a list
of its own for route objects.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Final

from google.protobuf.message import DecodeError

from activator.autoscaler import stat_pb2
from activator.autoscaler.concurrency import Stat
from throttler.model import RevisionID, RevisionKind

#: Stats that ``decoding`` decodes in one step, which takes about 1 ms.
STEP: Final = 250
#: Stats of one frame, at most: a message needs two bytes of a frame, but a hundred of memory.
MOST_STATS: Final = 20_000


def encode(stats: Iterable[Stat], pod_name: str) -> bytes:
    """Return one frame with all ``stats``.

    Arguments:
        pod_name: the pod of this activator (``POD_NAME``).
    """
    frame = stat_pb2.WireStatMessages()
    for stat in stats:
        message = _messages(frame, stat.revision_id.kind).add()
        message.namespace, message.name, _ = stat.revision_id
        # Setting a field, even to an empty value, makes the stat present. The autoscaler drops a
        # message without stat.
        message.stat.pod_name = pod_name
        message.stat.average_concurrent_requests = stat.concurrency
        message.stat.request_count = stat.request_count
    return frame.SerializeToString()


def decoding(frame: bytes) -> Iterator[tuple[list[Stat], set[str]]]:
    """Yield the stats of a frame, and the names of the pods that reported them, in steps.

    A step has at most ``STEP`` stats. Messages without stat are skipped, as the autoscaler does.
    The kind of a revision is HTTP_ROUTE or REVISION, which also stands for the other kinds.

    Raises:
        ValueError: ``frame`` is no such protobuf message, which a late step may find; or it has too
            many stats.
    """
    parsed = stat_pb2.WireStatMessages()
    try:
        parsed.ParseFromString(frame)
        if (count := len(parsed.messages) + len(parsed.routes)) > MOST_STATS:
            raise ValueError(f"it has {count} stats, more than {MOST_STATS}")
        for kind in (RevisionKind.REVISION, RevisionKind.HTTP_ROUTE):
            messages = _messages(parsed, kind)
            for first in range(0, len(messages), STEP):
                some = [each for each in messages[first : first + STEP] if each.HasField("stat")]
                stats = [_stat_of(message, kind) for message in some]
                yield stats, {each.stat.pod_name for each in some}
    except (DecodeError, OverflowError, ValueError) as error:  # the latter two: a count of inf, NaN
        raise ValueError(
            f"a stat frame of {len(frame)} bytes is not a metrics.WireStatMessages: {error}"
        ) from error


def _messages(frame: stat_pb2.WireStatMessages, kind: RevisionKind) -> Any:
    """Return the list of a frame for a kind; one list has all kinds but route objects."""
    return frame.routes if kind is RevisionKind.HTTP_ROUTE else frame.messages


def _stat_of(message: stat_pb2.WireStatMessage, kind: RevisionKind) -> Stat:
    return Stat(
        RevisionID(message.namespace, message.name, kind),
        message.stat.average_concurrent_requests,
        round(message.stat.request_count),
    )


def frame_sink(
    send: Callable[[bytes, Callable[[], None]], None],
    pod_name: str,
    on_sent_of: Callable[[list[Stat]], Callable[[], None]] = lambda _stats: lambda: None,
    kinds: Collection[RevisionKind] = (RevisionKind.REVISION,),
) -> Callable[[list[Stat]], None]:
    """Return a sink for ``StatReporter`` that passes each batch of stats to ``send`` as one frame.

    Arguments:
        send: ``AutoscalerLink.send``; gets the frame, and a function to call when the frame has
            been sent.
        pod_name: the pod of this activator.
        on_sent_of: makes that function from the stats.
        kinds: the stats of these kinds are for the peer.
    """

    def sink(stats: list[Stat]) -> None:
        if wanted := [stat for stat in stats if stat.revision_id.kind in kinds]:
            send(encode(wanted, pod_name), on_sent_of(wanted))

    return sink
