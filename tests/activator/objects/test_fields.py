"""Tests."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activator.objects.fields import (
    Field,
    ManifestError,
    ObjectKey,
    host,
    identify,
    ip_of,
    port_named,
    root,
    show,
)
from tests.rows import in_one_test

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def test_an_error_names_object_and_field() -> None:
    field = Field({"subsets": [{}, {"addresses": [{"ip": 5}]}]}, "Endpoints default/foo")
    subset = list(field["subsets"].items())[1]
    ip = next(subset["addresses"].items())["ip"]
    with pytest.raises(ManifestError) as caught:
        ip.text()
    assert str(caught.value) == (
        "Endpoints default/foo: subsets[1].addresses[0].ip: expected a string, got 5"
    )


@in_one_test(
    ("value", "expected"),
    [
        ("250m", 0.25),
        ("1", 1.0),
        (2, 2.0),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("1E", 1e18),
        ("64Mi", 64 * 2.0**20),
        ("2k", 2000.0),
        ("100u", 0.0001),
        (None, 0.0),
    ],
)
def test_a_quantity_of_a_resource(value: object, expected: float) -> None:
    assert root({"cpu": value}, "Pod")["cpu"].quantity() == pytest.approx(expected)


@in_one_test("value", ["", "one", "1 Gi", "1KI", "1ee3", "9" * 99, True, []])
def test_another_text_is_no_quantity(value: object) -> None:
    with pytest.raises(ManifestError, match="expected a"):
        root({"cpu": value}, "Pod")["cpu"].quantity()


def test_null_is_the_same_as_missing() -> None:
    assert Field({"a": None}, "x")["a"]["b"].text("default") == "default"
    assert list(Field(None, "x").items()) == []


def test_true_is_no_number() -> None:
    with pytest.raises(ManifestError, match="got true"):
        Field(True, "x").whole(minimum=0, maximum=5, default=0)


@pytest.mark.parametrize("half", ["\ud800", "é\udfffx"])
def test_half_a_surrogate_pair_is_no_text(half: str) -> None:
    with pytest.raises(ManifestError, match=r"x: a: expected a string in UTF-8, got '.*\\ud"):
        Field({"a": half}, "x")["a"].text()
    assert Field("é\U0001f600", "x").text() == "é\U0001f600"


@in_one_test("name", ["", "a/b", "a b", "a\r\nb", "x" * 254, 5, None, ["a"]])
def test_a_name_cannot_carry_what_breaks_headers_and_logs(name: object) -> None:
    with pytest.raises(ManifestError, match=r"metadata\.name: expected a (name|string)"):
        identify({"metadata": {"name": name}}, "Revision")


def test_the_namespace_is_default_where_there_is_none() -> None:
    assert identify({"metadata": {"name": "a"}}, "Secret") == ObjectKey("Secret", "default", "a")


@given(json_values)
def test_whatever_is_shown_is_short_printable_ascii(value: object) -> None:
    shown = show(value)
    assert len(shown) < 200
    assert shown.isascii()
    assert shown.isprintable()


def test_a_number_too_long_to_print_is_shown() -> None:
    assert show(10**5000) == "a huge number"


@given(json_values)
def test_any_value_is_identified_or_refused(value: object) -> None:
    for obj in (value, {"metadata": value}, {"metadata": {"name": value, "namespace": value}}):
        try:
            assert identify(obj, "Endpoints").kind == "Endpoints"
        except ManifestError:
            pass


@in_one_test(
    ("ip", "written"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("fd00::1", "[fd00::1]"),
        ("", ""),
        ("10.0.0", ""),
        ("10.0.0.01", ""),
        ("10.0.0.1:80", ""),
        ("[fd00::1]", ""),
        ("pod.example", ""),
    ],
)
def test_only_an_address_is_a_host(ip: str, written: str) -> None:
    assert host(ip) == written


def test_an_address_is_kept_as_it_was_written() -> None:
    assert ip_of(Field("FD00::0:1", "x", "ip")) == "FD00::0:1"


@pytest.mark.parametrize("value", [None, 5, "", "pod", ["10.0.0.1"]])
def test_what_is_no_address_is_named(value: Any) -> None:
    with pytest.raises(ManifestError, match=r"^x: ip: expected "):
        ip_of(Field(value, "x", "ip"))


@pytest.mark.parametrize(
    ("ports", "number"),
    [
        (None, 0),
        ([], 0),
        ([{"name": "http", "port": 80}, {"name": "http", "port": 81}], 80),
        ([{"port": 80}, {"name": "http2", "port": 81}], 0),
        ([{"name": "http"}], 0),
    ],
)
def test_the_first_port_of_a_name_is_taken(ports: Any, number: int) -> None:
    assert port_named(Field(ports, "x", "ports"), "http") == number


@pytest.mark.parametrize("port", [0, 65_536, -1, "80", True, 80.0])
def test_what_is_no_port_is_named(port: Any) -> None:
    with pytest.raises(ManifestError, match=r"ports\[0\]\.port: expected an integer from 1 to"):
        port_named(Field([{"name": "http", "port": port}], "x", "ports"), "http")
