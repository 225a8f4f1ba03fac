"""Ages in the API's words; what there is none of says so."""

from __future__ import annotations

from types import SimpleNamespace

from activator.admin.staleness import autoscaler_view, manifests_view, watches_view


def test_watches_are_told_by_kind_with_what_is_wrong() -> None:
    watch = SimpleNamespace(
        counters={"Revision": 1, "Endpoints": 1, "EndpointSlice": 1},
        errors={"Endpoints": "500"},
        ages=lambda now: {"Revision": now - 100, "Endpoints": 75.0004},
    )
    drift = SimpleNamespace(found={"Revision": 2})
    assert watches_view(watch, drift, 103.25) == {
        "Revision": {"ageSeconds": 3.25, "error": None, "drifted": 2},
        "Endpoints": {"ageSeconds": 75.0, "error": "500", "drifted": 0},
        # A role need not allow slices: what may be missing has no age.
        "EndpointSlice": {"ageSeconds": None, "error": None, "drifted": 0},
    }


def test_a_folder_tells_when_it_was_looked_at_and_when_it_changed() -> None:
    folder = SimpleNamespace(path="/m", looked_ago=lambda: 1.23456, changed_ago=lambda: 60.0)
    assert manifests_view(folder) == {
        "folder": "/m",
        "ageSeconds": 1.235,
        "lastChangeSecondsAgo": 60.0,
    }


def test_a_link_tells_of_its_last_sign_of_life_and_last_word() -> None:
    link = SimpleNamespace(
        connected=True, last_error="", age=lambda: 1.5, last_sent_age=lambda: None
    )
    assert autoscaler_view(link) == {
        "connected": True,
        "ageSeconds": 1.5,
        "lastSentSecondsAgo": None,
        "lastError": None,
    }
    link.connected, link.last_error = False, "dial failed: refused"
    view = autoscaler_view(link)
    assert view is not None
    assert (view["connected"], view["lastError"]) == (False, "dial failed: refused")


def test_what_there_is_none_of_says_nothing() -> None:
    assert watches_view(None, None, 0.0) == {}
    assert manifests_view(None) is None
    assert autoscaler_view(None) is None
