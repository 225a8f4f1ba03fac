"""The page of ``activator explain`` as lines, from the view of a real activator."""

from __future__ import annotations

import json
from typing import Any

from activator.admin.api import revision_view
from activator.console import explain
from activator.console.client import parse
from activator.console.screen import plain

POD, OTHER = "10.0.0.1:8012", "10.0.0.2:8012"


def view(world, throttler, **more):
    """Return the view of a real activator, with the fields that other parts add."""
    return revision_view(world.driver, throttler) | more


def shown(answer, **activator) -> list[str]:
    page = explain.page(parse(json.dumps(answer)), parse(json.dumps(activator)))
    return plain(page).splitlines()


#: A response of the scaler about a Service.
SERVICE: dict[str, Any] = {
    "target": "Deployment/hello",
    "owner": "self",
    "phase": "serving",
    "replicas": {"present": 1, "wanted": 2, "ready": 0},
    "reason": None,
    "detail": None,
    "sentence": "The load asks for it",
    "lastChange": None,
    "findings": [],
}
