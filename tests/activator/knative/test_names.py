"""Names of objects that follow from the names of others."""

from __future__ import annotations

import pytest

from activator.knative.names import http_version, private_service


@pytest.mark.parametrize(
    ("revision", "name"),
    [
        ("hello-00001", "hello-00001-private"),
        ("a" * 55, "a" * 55 + "-private"),
        # md5 of 56 times "a", from coreutils' md5sum.
        ("a" * 56, "a" * 23 + "3b0c8ac703f828b04c6c197006d17218" + "-private"),
    ],
)
def test_the_private_service_of_a_revision(revision: str, name: str) -> None:
    assert private_service(revision) == name
    assert len(name) <= 63


@pytest.mark.parametrize(("minor", "version"), [(0, "1.0"), (1, "1.1"), (2, "2")])
def test_versions_of_http_have_names(minor, version):
    assert http_version(minor) == version
