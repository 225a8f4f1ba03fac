"""Which addresses lead back to the activator that reads them."""

from __future__ import annotations

import pytest

from activator.plain.allotments import OwnListener, OwnListeners


@pytest.mark.parametrize(
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
