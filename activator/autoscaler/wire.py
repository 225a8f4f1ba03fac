"""Stats as the autoscaler reads them: one ``metrics.WireStatMessages`` in protobuf per frame.

Pure. It must not know how frames travel nor when stats arise.
Knative: pkg/autoscaler/metrics/stat.proto and pkg/activator/stat_reporter.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from google.protobuf.message import DecodeError

from activator.autoscaler import stat_pb2
from activator.autoscaler.concurrency import Stat
from throttler.model import RevisionID


def encode(stats: Iterable[Stat], pod_name: str) -> bytes:
    """One frame with all ``stats``, as seen by the activator pod ``pod_name`` (``POD_NAME``)."""
    frame = stat_pb2.WireStatMessages()
    for stat in stats:
        message = frame.messages.add()
        message.namespace, message.name = stat.revision_id
        # Setting a field, even to nothing, makes the stat present: without one the autoscaler
        # would drop the message.
        message.stat.pod_name = pod_name
        message.stat.average_concurrent_requests = stat.concurrency
        message.stat.request_count = stat.request_count
    return frame.SerializeToString()


def decode(frame: bytes) -> tuple[list[Stat], frozenset[str]]:
    """The stats of a frame and the names of the pods that reported them.

    For peers of the activator (the lab's autoscaler, tests). As the autoscaler does, it skips
    messages without stat. Raises ValueError when ``frame`` is no such protobuf message.
    """
    parsed = stat_pb2.WireStatMessages()
    try:
        parsed.ParseFromString(frame)
        told = [message for message in parsed.messages if message.HasField("stat")]
        stats = [_stat_of(message) for message in told]
    except (DecodeError, OverflowError, ValueError) as error:  # the latter two: a count of inf, NaN
        raise ValueError(
            f"a stat frame of {len(frame)} bytes is not a metrics.WireStatMessages: {error}"
        ) from error
    return stats, frozenset(message.stat.pod_name for message in told)


def _stat_of(message: stat_pb2.WireStatMessage) -> Stat:
    return Stat(
        RevisionID(message.namespace, message.name),
        message.stat.average_concurrent_requests,
        round(message.stat.request_count),
    )


def frame_sink(
    send: Callable[[bytes, Callable[[], None]], None],
    pod_name: str,
    leave: Callable[[list[Stat]], Callable[[], None]] = lambda _stats: lambda: None,
) -> Callable[[list[Stat]], None]:
    """A listener for ``StatReporter`` that hands each batch of stats to ``send`` as one frame.

    ``send`` (``AutoscalerLink.send``) is given what to call when the frame has left; ``leave``
    makes that of the stats.
    """

    def sink(stats: list[Stat]) -> None:
        send(encode(stats, pod_name), leave(stats))

    return sink
