"""Ages in the API's words; an age that does not exist says so."""

from __future__ import annotations

from types import SimpleNamespace

from activator.admin.staleness import (
    autoscaler_view,
    manifests_view,
    warnings_of,
    warnings_view,
    watches_view,
)
from activator.records.source_status import (
    FilesStatus,
    KindStatus,
    MissedEvents,
    ObjectWarning,
    SourceStatus,
    WatchCounters,
)
from throttler.model import RevisionID, RevisionKind


def test_watches_are_shown_by_kind_with_their_errors() -> None:
    source = SourceStatus(
        kind="test",
        name="test",
        kinds={
            "Revision": KindStatus(age=3.25, watch=WatchCounters()),
            "Endpoints": KindStatus(age=75.0004, watch=WatchCounters(), error="500"),
            # A role may deny slices: a missing optional kind has no age.
            "EndpointSlice": KindStatus(watch=WatchCounters()),
            "Secret": KindStatus(in_force=1),
        },
        missed=MissedEvents(found={"Revision": 2}),
    )
    assert watches_view(source) == {
        "Revision": {"ageSeconds": 3.25, "error": None, "drifted": 2},
        "Endpoints": {"ageSeconds": 75.0, "error": "500", "drifted": 0},
        "EndpointSlice": {"ageSeconds": None, "error": None, "drifted": 0},
    }
    assert manifests_view(source) is None


def test_files_are_shown_with_their_ages() -> None:
    source = SourceStatus("test", "test", {}, FilesStatus("/m", age=1.23456, changed_age=60.0))
    assert manifests_view(source) == {
        "folder": "/m",
        "ageSeconds": 1.235,
        "lastChangeSecondsAgo": 60.0,
    }
    assert watches_view(source) == {}


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
    assert watches_view(None) == {}
    assert manifests_view(None) is None
    assert autoscaler_view(None) is None


def test_warnings_of_a_revision_are_about_objects_that_may_be_meant_for_it() -> None:
    warnings = (
        ObjectWarning("Revision", "default", "hello", "hello", "one"),
        ObjectWarning("Endpoints", "default", "nameless", "", "two"),
        ObjectWarning("Endpoints", "default", "other-private", "other", "three"),
        ObjectWarning("Endpoints", "elsewhere", "nameless", "", "four"),
        ObjectWarning(
            "Service", "default", "hello", "hello", "five", "host-conflict", RevisionKind.SERVICE
        ),
    )
    source = SourceStatus("test", "test", {}, warnings=warnings)
    revision = RevisionID("default", "hello")

    def texts(*, has_pods: bool) -> list[str]:
        return [each["warning"] for each in warnings_of(source, revision, has_pods=has_pods)]

    assert texts(has_pods=True) == ["one"]
    assert texts(has_pods=False) == ["one", "two"]
    assert [each["warning"] for each in warnings_view(source)] == [
        *("one", "two", "three", "four", "five")
    ]
    many = SourceStatus("test", "test", {}, warnings=warnings * 50)
    assert len(warnings_view(many)) == 100
    service = RevisionID("default", "hello", RevisionKind.SERVICE)
    found = warnings_of(source, service, has_pods=True)
    assert [(each["warning"], each["reason"]) for each in found] == [
        ("one", None),  # of an unknown kind
        ("five", "host-conflict"),
    ]
    of_pods = ObjectWarning("EndpointSlice", "default", "odd", "pods", "six", "invalid")
    unused = ObjectWarning("Service", "default", "pods", "pods", "seven")
    source = SourceStatus("test", "test", {}, warnings=(of_pods, unused))
    found = warnings_of(source, service, has_pods=True, pods="pods")
    assert [each["warning"] for each in found] == ["six"]
    assert warnings_of(source, service, has_pods=False) == []
    assert warnings_view(None) == warnings_of(None, revision, has_pods=False) == []
