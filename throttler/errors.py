"""The errors that end a request before a pod responds, each with its HTTP status.

::

    ActivatorError
    ├── RevisionNotFound   404  the client names no known revision
    ├── RequestQueueFull   503  the queue has reached a limit
    ├── FlowFull           503  the flow of the request has its part of the queue
    └── WaitTooLong        503  the expected wait exceeds the deadline

A deadline that passes in the queue raises no error: it ends the ticket (``Changes.expired``).
"""

from __future__ import annotations

from typing import ClassVar

from throttler.model import RevisionKind


class ActivatorError(Exception):
    """The activator ends a request with an error response.

    Attributes:
        status: the HTTP status of the response.
    """

    status: ClassVar[int] = 500


class RevisionNotFound(ActivatorError):
    """The activator knows no revision of that name.

    Source: Knative pkg/activator/handler/context_handler.go.

    Attributes:
        name: the name in the request; namespace: its namespace, empty if the request has none.
        kind: the kind of object that the request names.
        host: the host of the request if nothing else names a Service; else None.
    """

    status: ClassVar[int] = 404

    def __init__(
        self,
        name: str,
        namespace: str = "",
        kind: RevisionKind = RevisionKind.REVISION,
        host: str | None = None,
    ) -> None:
        super().__init__(f'{kind} "{name}" not found')
        self.name = name
        self.namespace = namespace
        self.kind = kind
        self.host = host


class RequestQueueFull(ActivatorError):
    """The queue has reached a limit, of requests or bytes, of the revision or of all revisions.

    Attributes:
        limit: one of ``revision-depth``, ``revision-bytes``, ``class-depth``, ``class-bytes``,
            ``total-depth``, ``total-bytes``.
    """

    status: ClassVar[int] = 503

    def __init__(self, limit: str) -> None:
        super().__init__("pending request queue full")
        self.limit = limit


class FlowFull(ActivatorError):
    """The flow of the request has as many queued requests as one flow may have.

    Attributes:
        waiting: number of queued requests of the flow.
    """

    status: ClassVar[int] = 503

    def __init__(self, waiting: int) -> None:
        super().__init__("too many queued requests of one tenant")
        self.waiting = waiting


class WaitTooLong(ActivatorError):
    """A request is refused at once, since its expected wait exceeds its deadline (``shed_early``).

    Attributes:
        expected: the expected wait, seconds; left: seconds until the deadline.
    """

    status: ClassVar[int] = 503

    def __init__(self, expected: float, left: float) -> None:
        super().__init__("expected wait exceeds the time-out")
        self.expected = expected
        self.left = left
