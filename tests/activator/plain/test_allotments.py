"""The ports that takeover slices store."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given

from activator.objects.fields import ManifestError
from activator.plain.slices import Allotment, OwnListener, OwnListeners, parse_allotment
from tests.activator.objects.test_fields import json_values
from tests.activator.plain.objects import endpoint, slice_of, takeover_slice
from tests.rows import in_one_test

CREATED = "2026-02-01T00:00:00Z"


def test_a_slice_of_kubernetes_allots_nothing() -> None:
    assert parse_allotment(slice_of(endpoint())) is None


@pytest.mark.parametrize(("ips", "is_empty"), [((), True), (("10.1.0.1",), False)])
def test_a_takeover_slice_names_the_service_and_its_port(ips: Any, is_empty: bool) -> None:
    found = parse_allotment(takeover_slice(*ips))
    assert found == Allotment(CREATED, "hello", 10_000, is_empty)


def test_endpoints_that_are_null_are_none() -> None:
    """The API server returns an empty list of endpoints as null."""
    found = parse_allotment(takeover_slice() | {"endpoints": None})
    assert found is not None
    assert found.is_empty


@in_one_test("port", ["", "0", "65536", "-1", "1e3", "１０", "9" * 5000, "10000 "])
def test_a_port_that_is_no_number_of_a_port_is_none(port: str) -> None:
    found = parse_allotment(takeover_slice(port=port))
    assert found is not None
    assert found.port == 0


@given(json_values)
def test_any_value_is_read_or_refused(value: Any) -> None:
    obj = takeover_slice()
    for broken in (obj | {"endpoints": value}, obj | {"metadata": value}):
        with suppress(ManifestError):
            parse_allotment(broken)


@in_one_test(
    ("host", "own_ip", "address", "found"),
    [
        ("0.0.0.0", "0.0.0.0", "127.0.0.1:8012", True),
        ("0.0.0.0", "0.0.0.0", "127.9.9.9:8012", True),
        ("::", "", "[::1]:8012", True),
        ("0.0.0.0", "10.0.0.7", "10.0.0.7:8012", True),
        ("0.0.0.0", "10.0.0.7", "10.0.0.8:8012", False),
        ("0.0.0.0", "10.0.0.7", "127.0.0.1:8080", False),
        ("127.0.0.1", "", "127.0.0.1:8012", True),
        # A pod of a folder may have the same port at another loopback address.
        ("127.0.0.1", "", "127.0.0.11:8012", False),
        ("::1", "", "[0:0::1]:8012", True),
        ("::1", "", "127.0.0.1:8012", False),
    ],
)
def test_an_address_of_a_listener(host: str, own_ip: str, address: str, found: bool) -> None:
    own = OwnListeners([OwnListener(host, 8012, "--http-port")], own_ip)
    expected = {address: "--http-port"} if found else {}
    assert own.among(["10.1.1.1:80", address]) == expected


def test_a_port_that_the_system_picks_is_no_port() -> None:
    own = OwnListeners([OwnListener("127.0.0.1", 0, "--http-port")])
    assert not own.has_port(0)
