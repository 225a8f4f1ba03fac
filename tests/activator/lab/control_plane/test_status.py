from __future__ import annotations

import json

from activator.lab.control_plane.resources import DEPLOYMENTS
from activator.lab.control_plane.status import internal, not_found


def test_error_is_a_status_object():
    response = not_found(DEPLOYMENTS, "w").response()
    assert (response.status, response.content_type) == (404, "application/json")
    assert json.loads(response.body) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'deployments.apps "w" not found',
        "reason": "NotFound",
        "details": {"name": "w", "group": "apps", "kind": "deployments"},
        "code": 404,
    }


def test_internal_error_has_no_reason():
    assert "reason" not in json.loads(internal("broken").response().body)
