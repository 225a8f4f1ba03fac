"""The page at ``/``: what there is to read. No script, no style, nothing from elsewhere."""

from __future__ import annotations

from html import escape

#: What the page lists: the path, whether it is one to open as it stands, what it tells.
ENDPOINTS = (
    ("/healthz", True, "whether the process is alive"),
    ("/readyz", True, "whether it should be sent traffic"),
    ("/metrics", True, "metrics for Prometheus"),
    ("/api/v1/revisions", True, "every revision, with its pods and its queue, as JSON"),
    ("/api/v1/revisions/{namespace}/{name}", False, "one revision"),
    ("/api/v1/activator", True, "this activator: whether it is ready, and what it knows"),
    ("/api/v1/openapi.json", True, "all of this as an OpenAPI document"),
    ("/api/v1/events", False, "what happens to them, as it happens (server-sent events)"),
)


def index(pod_name: str, version: str) -> str:
    """Return the page."""
    items = "\n".join(
        f"<li>{_linked(path) if link else _code(path)}: {escape(meaning)}</li>"
        for path, link, meaning in ENDPOINTS
    )
    title = escape(f"activator {version} on {pod_name}")
    return (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
        f"<title>{title}</title></head>\n<body>\n<main>\n<h1>{title}</h1>\n"
        f"<ul>\n{items}\n</ul>\n"
        "<p>The same in a terminal: <code>activator status</code>.</p>\n"
        "</main>\n</body>\n</html>\n"
    )


def _linked(path: str) -> str:
    return f'<a href="{escape(path)}">{_code(path)}</a>'


def _code(path: str) -> str:
    return f"<code>{escape(path)}</code>"
