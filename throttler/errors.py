"""What can end a request before a pod answers it: whose fault, which status, may it be repeated.

::

    ActivatorError
    ├── RevisionNotFound   404  the client's: no such revision
    ├── RequestQueueFull   503  ours: a bound of the breaker is reached
    ├── RequestTimedOut    504  nobody's: the deadline passed
    └── UpstreamFailed     502  the pod's, after it may have seen the request
"""

from __future__ import annotations


class ActivatorError(Exception):
    """A request ends here.

    Attributes:
        status: the HTTP status of the answer.
        retriable: whether the client may send the same request again without a second effect.
    """

    status: int = 500
    retriable: bool = False


class RevisionNotFound(ActivatorError):
    """No revision of that name is known (Knative: pkg/activator/handler/context_handler.go).

    Attributes:
        name: what was asked for; named: whether the request says it in full, with its namespace.
    """

    status = 404
    retriable = True

    def __init__(self, name: str, named: bool = True) -> None:
        super().__init__(f'revision.serving.knative.dev "{name}" not found')
        self.name = name
        self.named = named


class RequestQueueFull(ActivatorError):
    """A bound on waiting requests, by count or by bytes, of the revision or in all, is reached.

    Attributes:
        bound: which one: ``revision-depth``, ``revision-bytes``, ``total-depth``, ``total-bytes``.
    """

    status = 503
    retriable = True

    def __init__(self, bound: str) -> None:
        super().__init__("pending request queue full")
        self.bound = bound


class RequestTimedOut(ActivatorError):
    """The request's deadline passed (Knative: pkg/http/handler/timeout.go)."""

    status = 504
    retriable = True

    def __init__(self) -> None:
        super().__init__("activator request timeout")


class UpstreamFailed(ActivatorError):
    """The pod failed after the request may have had an effect, so it is not sent again."""

    status = 502
