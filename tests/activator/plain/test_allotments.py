"""The ports that takeover slices store."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given

from activator.objects.fields import ManifestError
from activator.plain.allotments import Allotment, parse
from tests.activator.objects.test_fields import json_values
from tests.activator.plain.objects import endpoint, slice_of, takeover_slice

CREATED = "2026-02-01T00:00:00Z"


def test_a_slice_of_kubernetes_allots_nothing() -> None:
    assert parse(slice_of(endpoint())) is None


@pytest.mark.parametrize(("ips", "is_empty"), [((), True), (("10.1.0.1",), False)])
def test_a_takeover_slice_names_the_service_and_its_port(ips: Any, is_empty: bool) -> None:
    found = parse(takeover_slice(*ips))
    assert found == Allotment(CREATED, "hello", 10_000, is_empty)


def test_endpoints_that_are_null_are_none() -> None:
    """The API server returns an empty list of endpoints as null."""
    found = parse(takeover_slice() | {"endpoints": None})
    assert found is not None
    assert found.is_empty


@pytest.mark.parametrize("port", ["", "0", "65536", "-1", "1e3", "１０", "9" * 5000, "10000 "])
def test_a_port_that_is_no_number_of_a_port_is_none(port: str) -> None:
    found = parse(takeover_slice(port=port))
    assert found is not None
    assert found.port == 0


@given(json_values)
def test_any_value_is_read_or_refused(value: Any) -> None:
    obj = takeover_slice()
    for broken in (obj | {"endpoints": value}, obj | {"metadata": value}):
        with suppress(ManifestError):
            parse(broken)
