"""The values of the core: which are equal, and their text."""

from __future__ import annotations

import dataclasses

import pytest

from throttler.model import (
    AppProtocol,
    Endpoint,
    HashKey,
    ListedEndpoints,
    Revision,
    RevisionID,
    RevisionKind,
)


def test_a_revision_is_written_as_people_write_it() -> None:
    assert str(RevisionID("default", "hello-00001")) == "default/hello-00001"


def test_a_plain_tuple_finds_what_is_kept_under_a_revision_id() -> None:
    kept: dict[tuple[str, str, str], int] = {RevisionID("ns", "name"): 1}
    assert kept["ns", "name", "revision"] == 1
    assert ("ns", "name", RevisionKind.SERVICE) not in kept


def test_a_service_is_written_without_its_kind() -> None:
    assert str(RevisionID("default", "hello", RevisionKind.SERVICE)) == "default/hello"


@pytest.mark.parametrize(
    ("protocol", "port"), [(AppProtocol.HTTP1, "http"), (AppProtocol.H2C, "http2")]
)
def test_the_endpoints_port_is_named_for_the_protocol(protocol: AppProtocol, port: str) -> None:
    assert protocol.port_name == port


def test_the_same_address_with_another_uid_is_another_pod() -> None:
    assert Endpoint("10.0.0.1:8012", "a") != Endpoint("10.0.0.1:8012", "b")
    assert Endpoint("10.0.0.1:8012") == Endpoint("10.0.0.1:8012", "")


def test_dests_are_equal_whatever_their_order() -> None:
    a, b = Endpoint("10.0.0.1:8012"), Endpoint("10.0.0.2:8012")
    assert ListedEndpoints(frozenset((a, b))) == ListedEndpoints(frozenset((b, a)))
    assert ListedEndpoints() == ListedEndpoints(frozenset(), frozenset())


def test_a_revision_cannot_be_changed_in_place() -> None:
    spec = Revision(RevisionID("ns", "name"))
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.timeout = 1.0  # the assignment must fail: the class is frozen
    assert (spec.container_concurrency, spec.timeout, spec.probe_suffices) == (0, 300.0, True)


def test_a_hash_key_is_written_as_in_its_annotation() -> None:
    assert str(HashKey(b"x-user")) == "header:x-user"
