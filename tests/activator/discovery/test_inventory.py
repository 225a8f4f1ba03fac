"""One dialect's objects; test_inventory.py has the rest through the public face."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator
from itertools import permutations
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activator.discovery.dialect import Scope
from activator.discovery.inventory import (
    DIALECTS,
    GROUPS,
    DialectInventory,
    Inventory,
    SystemDialect,
)
from activator.discovery.knative_kinds import KnativeDialect
from activator.discovery.rejections import Effect, Rejection, log_rejection
from activator.discovery.service_kinds import ServicesDialect
from activator.discovery.wire import not_newer
from activator.objects.fields import ObjectKey
from tests.activator.discovery.recording import (
    A,
    B,
    RecordingSink,
    config_map,
    private,
    public,
    replace,
    revision,
    secret,
    slice_of,
    trust_bundle,
)
from tests.activator.objects.test_fields import json_values
from tests.activator.plain.objects import service
from tests.rows import in_one_test
from throttler.model import HTTP_PROTOCOLS, AppProtocol, ListedEndpoints


def empty() -> dict[AppProtocol, ListedEndpoints]:
    return {protocol: ListedEndpoints() for protocol in HTTP_PROTOCOLS}


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_the_order_of_arrival_does_not_matter(order: tuple[int, ...]) -> None:
    sink = RecordingSink()
    inventory = Inventory(sink, sink)
    objects = [revision(), private("10.0.0.1"), public("10.1.0.1")]
    for index in order:
        inventory.apply(objects[index])
    assert set(sink.revisions) == {A}
    assert sink.ready() == ["10.0.0.1:8012"]
    assert sink.activators[A][AppProtocol.HTTP1] == {"10.1.0.1"}


class Faulty(KnativeDialect):
    """A dialect with a fault in its reader of Revisions."""

    name = "faulty"

    @staticmethod
    def parse(key: ObjectKey, obj: Any, scope: Scope) -> Any:
        if key.name == "bad":
            raise KeyError("a fault of the program")
        return KnativeDialect.kinds["Revision"].parse(key, obj, scope)


Faulty.kinds = {
    **KnativeDialect.kinds,
    "Revision": dataclasses.replace(KnativeDialect.kinds["Revision"], parse=Faulty.parse),
}


@pytest.mark.parametrize("listed", [False, True])
def test_a_fault_of_a_reader_harms_only_its_object(
    listed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    sink = RecordingSink()
    inventory = Inventory(sink, sink, dialects=[Faulty])
    bad = revision() | {"metadata": {"name": "bad", "namespace": "default"}}
    if listed:
        replace(inventory, "Revision", [bad, revision()])
    else:
        inventory.apply(bad)
        inventory.apply(revision())
    assert set(sink.revisions) == {A}
    (reason,) = inventory.rejected.values()
    assert "unexpected error: KeyError('a fault of the program')" in reason
    caplog.clear()  # see conftest.no_unexpected_error


def test_an_unchanged_object_causes_no_call(inventory: Inventory, sink: RecordingSink) -> None:
    objects = [revision(), private("10.0.0.1"), public("10.1.0.1"), config_map("c", k="v")]
    for obj in objects:
        inventory.apply(obj)
    told = len(sink.calls)
    for obj in objects:
        obj["metadata"]["annotations"] = {"touched": "yes"}
        inventory.apply(obj)
        replace(inventory, obj["kind"], [o for o in objects if o["kind"] == obj["kind"]])
    assert told == 4
    assert len(sink.calls) == told


def test_deleted_endpoints_leave_no_pod_behind(inventory: Inventory, sink: RecordingSink) -> None:
    inventory.apply(private("10.0.0.1"))
    inventory.remove("Endpoints", "default", "a-private")
    assert sink.endpoints[A] == empty()


def test_a_deleted_revision_is_reported_and_its_pods_stay(
    inventory: Inventory, sink: RecordingSink
) -> None:
    inventory.apply(revision())
    inventory.apply(private("10.0.0.1"))
    inventory.remove("Revision", "default", "a")
    assert sink.revisions == {}
    assert sink.ready() == ["10.0.0.1:8012"]


def test_removing_what_is_not_known_is_no_error(inventory: Inventory, sink: RecordingSink) -> None:
    inventory.remove("Endpoints", "default", "nothing")
    assert sink.calls == []


def test_another_uid_under_the_same_name_is_reported(
    inventory: Inventory, sink: RecordingSink
) -> None:
    inventory.apply(revision(uid="u1", version="9", containerConcurrency=1))
    inventory.apply(revision(uid="u2", version="3", containerConcurrency=2))
    assert sink.revisions[A].uid == "u2"
    assert sink.revisions[A].container_concurrency == 2


def test_an_object_that_changes_its_label_empties_the_old_revision(
    inventory: Inventory, sink: RecordingSink
) -> None:
    inventory.apply(private("10.0.0.1", of="a", name="x"))
    inventory.apply(private("10.0.0.1", of="b", name="x"))
    assert sink.endpoints[A] == empty()
    assert sink.ready(B) == ["10.0.0.1:8012"]


def test_two_objects_of_one_revision_are_joined(inventory: Inventory, sink: RecordingSink) -> None:
    inventory.apply(private("10.0.0.1", name="x", not_ready=("10.0.0.2",)))
    inventory.apply(private("10.0.0.2", name="y"))
    assert sink.ready() == ["10.0.0.1:8012", "10.0.0.2:8012"]
    assert sink.endpoints[A][AppProtocol.HTTP1].not_ready == frozenset()
    inventory.remove("Endpoints", "default", "y")
    assert sink.ready() == ["10.0.0.1:8012"]


def test_a_list_removes_what_it_lacks_and_never_empties_what_it_holds(
    inventory: Inventory, sink: RecordingSink
) -> None:
    inventory.apply(private("10.0.0.1", of="a"))
    inventory.apply(private("10.0.0.2", of="b"))
    sink.calls.clear()
    replace(inventory, "Endpoints", [private("10.0.0.1", "10.0.0.3", of="a")])
    assert sink.calls == [
        ("set_endpoints", A, ["10.0.0.1:8012", "10.0.0.3:8012"]),
        ("set_endpoints", B, []),
    ]


def test_pods_that_move_to_another_object_in_one_list_are_never_away(
    inventory: Inventory, sink: RecordingSink
) -> None:
    inventory.apply(private("10.0.0.1", name="x"))
    inventory.apply(private("10.0.0.9", of="b", name="y"))
    sink.calls.clear()
    # Old x ends; its place goes to y, which was another revision's.
    replace(inventory, "Endpoints", [private("10.0.0.1", name="y")])
    assert sink.calls == [("set_endpoints", B, [])]
    assert sink.ready() == ["10.0.0.1:8012"]


def test_a_list_that_is_taken_in_step_by_step_never_takes_a_pod_away(
    inventory: Inventory, sink: RecordingSink
) -> None:
    inventory.apply(private("10.0.0.1", name="x"))
    inventory.apply(private("10.0.0.9", of="b", name="y"))
    sink.calls.clear()
    listed = [private("10.0.0.1", name="y"), *(private("10.0.0.2", of=f"r{n}") for n in range(5))]
    steps = 0
    for _ in inventory.replacing("Endpoints", listed):
        steps += 1
        # Events during the list must not put half of the list in force.
        inventory.apply(slice_of(f"10.0.1.{steps}", of="a"))
        inventory.apply(config_map("c", step=str(steps)))
    assert ("set_endpoints", A, []) not in sink.calls
    assert sink.ready() == ["10.0.0.1:8012"]
    assert sink.ready(B) == []
    assert sink.config_maps == {"c": {"step": str(steps)}}
    assert steps > len(listed)


def test_a_list_that_is_given_up_half_way_changes_nothing(
    inventory: Inventory, sink: RecordingSink
) -> None:
    inventory.apply(private("10.0.0.1"))
    steps = inventory.replacing("Endpoints", [private("10.0.0.2"), private("10.0.0.3", of="b")])
    next(steps)
    cast(Generator[None], steps).close()
    inventory.apply(revision())
    assert sink.ready() == ["10.0.0.1:8012"]
    assert B not in sink.endpoints


def test_a_broken_object_keeps_its_last_good_state(
    inventory: Inventory, sink: RecordingSink, rejections: list[Rejection]
) -> None:
    inventory.apply(private("10.0.0.1"))
    reason = inventory.apply(private("nonsense"))
    replace(inventory, "Endpoints", [private("nonsense"), private("10.0.0.2", of="b")])
    assert sink.ready() == ["10.0.0.1:8012"]
    assert sink.ready(B) == ["10.0.0.2:8012"]
    assert reason is not None
    assert rejections == [Rejection("Endpoints", "default", "a-private", reason, Effect.KEPT)]
    assert inventory.rejected == {ObjectKey("Endpoints", "default", "a-private"): reason}


def test_a_repaired_object_is_no_longer_rejected(inventory: Inventory, sink: RecordingSink) -> None:
    inventory.apply(private("nonsense"))
    inventory.apply(private("10.0.0.1"))
    assert inventory.rejected == {}
    assert sink.ready() == ["10.0.0.1:8012"]


def test_an_object_that_was_only_ever_broken_can_be_deleted(inventory: Inventory) -> None:
    inventory.apply(private("nonsense"))
    inventory.remove("Endpoints", "default", "a-private")
    assert inventory.rejected == {}


def test_an_object_without_a_name_is_reported_and_stops_nothing(
    inventory: Inventory, sink: RecordingSink, rejections: list[Rejection]
) -> None:
    replace(inventory, "Endpoints", [{"metadata": {}}, 5, private("10.0.0.1")])
    assert sink.ready() == ["10.0.0.1:8012"]
    assert [rejection.name for rejection in rejections] == ["?", "?"]


def test_time_travel_is_ignored(inventory: Inventory, sink: RecordingSink) -> None:
    inventory.apply(private("10.0.0.2", uid="u", version="10"))
    inventory.apply(private("10.0.0.1", uid="u", version="9"))
    assert sink.ready() == ["10.0.0.2:8012"]
    inventory.apply(private("10.0.0.3", uid="u", version="11"))
    assert sink.ready() == ["10.0.0.3:8012"]


@pytest.mark.parametrize("version", ["9", "10"])
def test_a_list_is_taken_as_it_is_also_after_etcd_was_restored(
    inventory: Inventory, sink: RecordingSink, version: str
) -> None:
    inventory.apply(private("10.0.0.2", uid="u", version="10"))
    replace(inventory, "Endpoints", [private("10.0.0.1", uid="u", version=version)])
    assert sink.ready() == ["10.0.0.1:8012"]
    inventory.apply(private("10.0.0.3", uid="u", version="11"))  # events follow on the list
    assert sink.ready() == ["10.0.0.3:8012"]
    inventory.apply(private("10.0.0.4", uid="u", version="10"))
    assert sink.ready() == ["10.0.0.3:8012"]


def test_versions_that_are_no_numbers_are_taken_as_they_come(
    inventory: Inventory, sink: RecordingSink
) -> None:
    inventory.apply(private("10.0.0.2", uid="u", version="zz"))
    inventory.apply(private("10.0.0.1", uid="u", version="9" * 5000))
    assert sink.ready() == ["10.0.0.1:8012"]


def test_the_deletion_of_a_predecessor_is_old_news(
    inventory: Inventory, sink: RecordingSink
) -> None:
    inventory.apply(revision(uid="u2"))
    inventory.remove("Revision", "default", "a", uid="u1")
    assert set(sink.revisions) == {A}


def test_config_maps_of_the_system_namespace_only(sink: RecordingSink) -> None:
    inventory = Inventory(sink, sink, scope=Scope("knative-serving"))
    inventory.apply(config_map("config-network", a="b"))
    inventory.apply(config_map("config-network", namespace="default", a="stranger"))
    assert sink.config_maps == {"config-network": {"a": "b"}}
    inventory.remove("ConfigMap", "knative-serving", "config-network")
    assert sink.config_maps == {"config-network": {}}


def test_a_broken_config_map_keeps_its_last_good_content(
    inventory: Inventory, sink: RecordingSink
) -> None:
    inventory.apply(config_map("c", a="b"))
    reason = inventory.apply(config_map("c", a=5))
    assert reason == "ConfigMap knative-serving/c: data[a]: expected a string, got 5"
    assert sink.config_maps == {"c": {"a": "b"}}


def test_secrets_of_the_system_namespace_only(sink: RecordingSink) -> None:
    inventory = Inventory(sink, sink, scope=Scope("knative-serving"))
    inventory.apply(secret("certs", a=b"1"))
    inventory.apply(secret("certs", namespace="default", a=b"stranger"))
    assert sink.secrets == {"certs": {"a": b"1"}}
    inventory.remove("Secret", "knative-serving", "certs")
    assert sink.secrets == {"certs": {}}


def test_a_broken_secret_keeps_its_last_good_content(
    inventory: Inventory, sink: RecordingSink, rejections: list[Rejection]
) -> None:
    inventory.apply(secret("certs", a=b"1"))
    inventory.apply(secret("certs") | {"data": {"a": "%%%"}})
    assert sink.secrets == {"certs": {"a": b"1"}}
    assert "data[a]: expected base64" in rejections[0].reason


def test_trust_bundles_are_reported_together_in_the_order_of_their_names(
    inventory: Inventory, sink: RecordingSink
) -> None:
    replace(
        inventory,
        "ConfigMap",
        [trust_bundle("b", "B1", "B2"), config_map("c", k="no"), trust_bundle("a", "A")],
    )
    assert sink.calls[-1] == ("set_trust_bundles", ("A", "B1", "B2"))
    assert [call[0] for call in sink.calls].count("set_trust_bundles") == 1
    inventory.apply(trust_bundle("a", "A"))
    assert [call[0] for call in sink.calls].count("set_trust_bundles") == 1
    inventory.remove("ConfigMap", "knative-serving", "b")
    assert sink.trust_bundles == ("A",)


def test_a_trust_bundle_that_loses_its_label_is_trusted_no_more(
    inventory: Inventory, sink: RecordingSink
) -> None:
    inventory.apply(trust_bundle("a", "A"))
    obj = trust_bundle("a", "A")
    del obj["metadata"]["labels"]
    inventory.apply(obj)
    assert sink.trust_bundles == ()
    inventory.apply(trust_bundle("a", "A"))
    assert sink.trust_bundles == ("A",)
    # The warning has the same text each time.
    assert [call[0] for call in sink.calls].count("set_config_map") == 1


def test_trust_bundles_of_other_namespaces_are_not_trusted(sink: RecordingSink) -> None:
    inventory = Inventory(sink, sink, scope=Scope("knative-serving"))
    inventory.apply(trust_bundle("a", "STRANGER", namespace="default"))
    assert sink.calls == []


def test_other_kinds_are_ignored_even_under_a_known_name(
    inventory: Inventory, sink: RecordingSink
) -> None:
    service = {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "metadata": 5}
    others: list[Any] = [service, {"kind": "Deployment"}, {"kind": []}, [], None]
    for obj in others:
        assert inventory.apply(obj) is None
    assert sink.calls == []


def test_objects_in_force_are_counted_by_kind(inventory: Inventory) -> None:
    inventory.apply(revision())
    inventory.apply({"kind": "Secret", "metadata": {"name": "s"}})
    replace(inventory, "Endpoints", [private("10.0.0.1"), private("10.0.0.2", of="b")])
    inventory.remove("Endpoints", "default", "b-private")
    assert {kind: n for kind, n in inventory.counts.items() if n} == {
        "Revision": 1,
        "Secret": 1,
        "Endpoints": 1,
    }


def test_objects_that_are_rejected_at_present_are_counted_by_kind(inventory: Inventory) -> None:
    for obj in (private("nonsense"), private("nonsense", of="b"), revision(idleTimeoutSeconds=-1)):
        inventory.apply(obj)
    inventory.apply(private("10.0.0.1"))
    rejected = {kind: each.rejected for kind, each in inventory.status().items()}
    assert {kind: n for kind, n in rejected.items() if n} == {"Endpoints": 1, "Revision": 1}
    assert set(rejected) == {*KnativeDialect.kinds, *SystemDialect.kinds}


steps = st.lists(
    st.tuples(
        st.sampled_from(["apply", "remove", "replace"]),
        st.sampled_from(["a", "b"]),
        st.sampled_from(["x", "y"]),
        st.lists(st.sampled_from(["10.0.0.1", "10.0.0.2", "nonsense"]), max_size=2),
    ),
    max_size=12,
)


@pytest.mark.untraced
@given(steps)
def test_after_any_history_the_sink_knows_what_the_objects_add_up_to(
    history: list[tuple[str, str, str, list[str]]],
) -> None:
    sink = RecordingSink()
    inventory = Inventory(sink, sink, lambda rejection: None)
    good: dict[str, tuple[str, list[str]]] = {}
    for verb, of, name, ips in history:
        obj = private(*ips, of=of, name=name)
        if verb == "apply":
            inventory.apply(obj)
        elif verb == "remove":
            inventory.remove("Endpoints", "default", name)
            good.pop(name, None)
            continue
        else:
            replace(inventory, "Endpoints", [obj])
            good = {key: value for key, value in good.items() if key == name}
        if "nonsense" not in ips:
            good[name] = (of, ips)
    for revision_id in (A, B):
        expected = {ip for of, ips in good.values() if of == revision_id.name for ip in ips}
        told = sink.ready(revision_id) if revision_id in sink.endpoints else []
        assert told == sorted(f"{ip}:8012" for ip in expected)
    sums = cast(KnativeDialect, inventory._parts[0].state)._private
    assert not sums._parts.keys() - {A, B}
    assert len(sums._published) == len({of for of, _ in good.values()})


@given(json_values, st.sampled_from(list(GROUPS)))
def test_no_value_stops_the_inventory(value: Any, kind: str) -> None:
    sink = RecordingSink()
    inventory = Inventory(sink, sink, lambda rejection: None, dialects=DIALECTS.values())
    inventory.apply(value)
    inventory.apply({"kind": kind, "metadata": value})
    inventory.apply({"kind": kind, "metadata": {"name": "a"}, "data": value, "spec": value})
    replace(inventory, kind, [value, {"metadata": {"name": "a", "uid": value}}])


def test_the_version_in_force_is_known_for_each_object(inventory: Inventory) -> None:
    inventory.apply(private("10.0.0.1", uid="u", version="7"))
    (key,) = inventory.in_force
    assert inventory.version_of(key) == ("u", "7")
    inventory.remove(key.kind, key.namespace, key.name)
    assert inventory.in_force == []
    assert inventory.version_of(key) is None


HELLO = ObjectKey("Service", "shop", "hello")


@in_one_test(
    ("version", "known", "expected"),
    [
        *(("7", "7", True), ("6", "7", True), ("8", "7", False), ("10", "9", False)),
        *(("", "7", False), ("7", "", False), ("a", "b", False), ("b", "b", True)),
        *(("9" * 5000, "1", False), ("１", "7", False)),
    ],
)
def test_versions(version: str, known: str, expected: bool) -> None:
    assert not_newer(version, known) is expected


def test_a_broken_object_of_a_list_leaves_its_last_good_state() -> None:
    sink, rejections = RecordingSink(), list[Rejection]()
    scope = Scope()
    state = ServicesDialect(sink, sink, scope)
    part = DialectInventory(state, rejections.append, scope)
    part.apply("Service", service())
    for _ in part.replacing("Service", [service({"enabled": "maybe"})]):
        pass
    assert [each.effect for each in rejections] == [Effect.KEPT]
    assert (part.counts["Service"], list(part.in_force)) == (1, [HELLO])
    part.remove(HELLO, "another uid")
    assert HELLO in part.in_force
    part.remove(HELLO, "s1")
    assert sink.revisions == {}


def test_a_rejection_is_logged_with_its_parts(caplog: pytest.LogCaptureFixture) -> None:
    log_rejection(Rejection("Revision", "ns", "r", "Revision ns/r: spec: wrong", Effect.KEPT))
    record = caplog.records[0]
    assert record.__dict__["object_name"] == "r"
    assert record.__dict__["reason"] == "Revision ns/r: spec: wrong"
    log_rejection(Rejection("Revision", "ns", "r", "spec: wrong", Effect.UNUSED))
    log_rejection(Rejection("Revision", "ns", "r", "spec: wrong", Effect.DEFAULTS))
    assert caplog.messages == [
        "invalid object: Revision ns/r: spec: wrong; its last good state stays in force",
        "invalid object: spec: wrong; it is not in use",
        "invalid object: spec: wrong; it has no last good state, so each wrong annotation has a "
        "safe default",
    ]
