"""What ``/`` says to those who are no browsers: what there is to read, as text."""

from __future__ import annotations

#: What is listed: the path, and what it tells.
ENDPOINTS = (
    ("/", "the dashboard, for browsers"),
    ("/healthz", "whether the process is alive"),
    ("/readyz", "whether it should be sent traffic"),
    ("/metrics", "metrics for Prometheus"),
    ("/api/v1/revisions", "every revision, with its pods and its queue, as JSON"),
    ("/api/v1/revisions/{namespace}/{name}", "one revision"),
    ("/api/v1/history", "the last ten minutes of all revisions that had requests"),
    ("/api/v1/activator", "this activator: whether it is ready, and what it knows"),
    ("/api/v1/events", "what happens to them, as it happens (server-sent events)"),
    ("/api/v1/openapi.json", "all of this as an OpenAPI document"),
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
