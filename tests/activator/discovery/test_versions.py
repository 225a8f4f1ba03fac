"""Where a watch starts, and which lists are too old."""

from __future__ import annotations

import pytest

from activator.discovery.reflector import Versions
from activator.discovery.wire import ConnectionLostError


def at(version: str) -> Versions:
    versions = Versions()
    versions.reached(version)
    return versions


def test_the_first_list_may_come_from_the_cache() -> None:
    versions = Versions()
    assert (versions.of_watch, versions.of_list) == ("", "0")


def test_a_list_may_not_be_older_than_the_last_version_the_first_time() -> None:
    versions = at("7")
    versions.list_next()
    for version in ("7", "8"):
        versions.check_age(version)
    with pytest.raises(ConnectionLostError, match="has version 6, expected 7 or newer"):
        versions.check_age("6")
    assert (versions.of_watch, versions.of_list) == ("", "")  # the next one comes from etcd


def test_an_expired_watch_lists_again_and_an_expired_list_lists_from_etcd() -> None:
    versions = at("7")
    versions.expired()
    assert (versions.of_watch, versions.of_list) == ("", "7")
    versions.expired()
    assert (versions.of_watch, versions.of_list) == ("", "")
