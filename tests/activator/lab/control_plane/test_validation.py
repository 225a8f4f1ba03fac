from __future__ import annotations

from activator.lab.control_plane.validation import ValidationRules, wrong_address


def test_lab_may_list_its_loopback_addresses():
    assert wrong_address("127.0.0.11", "IPv4", ValidationRules(allows_loopback=True)) == ""
    assert wrong_address("169.254.1.1", "IPv4", ValidationRules(allows_loopback=True)) != ""
