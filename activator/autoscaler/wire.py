"""Stats as the autoscaler reads them: one ``metrics.WireStatMessages`` in protobuf per frame.

Pure. Knows neither the transport of frames nor the time of stats. Knative:
pkg/autoscaler/metrics/stat.proto and pkg/activator/stat_reporter.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

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
        message = frame.messages.add()
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

    Raises:
        ValueError: ``frame`` is no such protobuf message, which a late step may find; or it has too
            many stats.
    """
    parsed = stat_pb2.WireStatMessages()
    try:
        parsed.ParseFromString(frame)
        if len(parsed.messages) > MOST_STATS:
            raise ValueError(f"it has {len(parsed.messages)} stats, more than {MOST_STATS}")
        for first in range(0, len(parsed.messages), STEP):
            some = [
                message
                for message in parsed.messages[first : first + STEP]
                if message.HasField("stat")
            ]
            yield [_stat_of(message) for message in some], {each.stat.pod_name for each in some}
    except (DecodeError, OverflowError, ValueError) as error:  # the latter two: a count of inf, NaN
        raise ValueError(
            f"a stat frame of {len(frame)} bytes is not a metrics.WireStatMessages: {error}"
        ) from error


def _stat_of(message: stat_pb2.WireStatMessage) -> Stat:
    return Stat(
        RevisionID(message.namespace, message.name),
        message.stat.average_concurrent_requests,
        round(message.stat.request_count),
    )


def frame_sink(
    send: Callable[[bytes, Callable[[], None]], None],
    pod_name: str,
    on_sent_of: Callable[[list[Stat]], Callable[[], None]] = lambda _stats: lambda: None,
    kind: RevisionKind = RevisionKind.REVISION,
) -> Callable[[list[Stat]], None]:
    """Return a sink for ``StatReporter`` that passes each batch of stats to ``send`` as one frame.

    Arguments:
        send: ``AutoscalerLink.send``; gets the frame, and a function to call when the frame has
            been sent.
        pod_name: the pod of this activator.
        on_sent_of: makes that function from the stats.
        kind: frames have no kinds, so the peer gets the stats of this one alone.
    """

    def sink(stats: list[Stat]) -> None:
        if wanted := [stat for stat in stats if stat.revision_id.kind is kind]:
            send(encode(wanted, pod_name), on_sent_of(wanted))

    return sink
