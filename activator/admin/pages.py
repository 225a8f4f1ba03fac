"""Make the text of ``/`` for clients other than browsers: a list of the paths."""

from __future__ import annotations

#: Each path, and the content of its response.
ENDPOINTS = (
    ("/", "the dashboard, for browsers"),
    ("/reasons/{name}", "the page of a reason or of an alert, as text; README is the list"),
    ("/healthz", "whether the process is alive"),
    ("/readyz", "whether the activator accepts traffic"),
    ("/metrics", "metrics for Prometheus"),
    ("/api/v1/revisions", "all revisions, with their pods and queues, as JSON"),
    ("/api/v1/revisions/{namespace}/{name}", "one revision"),
    ("/api/v1/history", "the last ten minutes of the revisions that had requests"),
    ("/api/v1/activator", "this activator: whether it is ready, and the age of its state"),
    ("/api/v1/events", "events of revisions as they occur (server-sent events)"),
    ("/api/v1/openapi.json", "this API as an OpenAPI document"),
)

_WIDTH = max(len(path) for path, _ in ENDPOINTS)


def index(pod_name: str, version: str) -> str:
    """Return the list."""
    lines = (f"{path:{_WIDTH}}  {meaning}" for path, meaning in ENDPOINTS)
    return "\n".join(
        (
            f"activator {version} on {pod_name}",
            "",
            *lines,
            "",
            "The same in a terminal: activator status",
            "",
        )
    )
