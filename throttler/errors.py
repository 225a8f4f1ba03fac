"""What can end a request before a pod answers it: whose fault, and which status.

::

    ActivatorError
    ├── RevisionNotFound   404  the client's: no such revision
    ├── RequestQueueFull   503  ours: a bound of the breaker is reached
    └── WaitTooLong        503  ours: it would wait beyond its deadline

A deadline that passes is no error but an end of its ticket (``Changes.expired``).
"""

from __future__ import annotations

from typing import ClassVar


class ActivatorError(Exception):
    """A request ends here.

    Attributes:
        status: the HTTP status of the answer.
    """

    status: ClassVar[int] = 500


class RevisionNotFound(ActivatorError):
    """No revision of that name is known (Knative: pkg/activator/handler/context_handler.go).

    Attributes:
        name: what was asked for; namespace: where; empty where the request does not say it in full.
    """

    status: ClassVar[int] = 404

    def __init__(self, name: str, namespace: str = "") -> None:
        super().__init__(f'revision "{name}" not found')
        self.name = name
        self.namespace = namespace


class RequestQueueFull(ActivatorError):
    """A bound on waiting requests, by count or by bytes, of the revision or in all, is reached.

    Attributes:
        bound: which one: ``revision-depth``, ``revision-bytes``, ``total-depth``, ``total-bytes``.
    """

    status: ClassVar[int] = 503

    def __init__(self, bound: str) -> None:
        super().__init__("pending request queue full")
        self.bound = bound


class WaitTooLong(ActivatorError):
    """A request would wait longer than it may last, and is told so at once (``shed_early``).

    Attributes:
        expected: seconds that it would wait; limit: seconds that it may.
    """

    status: ClassVar[int] = 503

    def __init__(self, expected: float, limit: float) -> None:
        super().__init__("expected wait exceeds the time-out")
        self.expected = expected
        self.limit = limit
