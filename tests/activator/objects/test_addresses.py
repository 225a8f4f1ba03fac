from __future__ import annotations

from typing import Any

import pytest

from activator.objects.fields import Field, ManifestError, host, ip_of, port_named


@pytest.mark.parametrize(
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
