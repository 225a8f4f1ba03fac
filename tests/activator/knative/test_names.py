"""Names of objects that follow from the names of others."""

from __future__ import annotations

import pytest

from activator.knative.words import http_version, names_private_service, private_service


@pytest.mark.parametrize(
    ("revision", "name"),
    [
        ("hello-00001", "hello-00001-private"),
        ("a" * 55, "a" * 55 + "-private"),
        ("r" * 55, "r" * 55 + "-private"),
        # The digests are md5sum's.
        ("r" * 56, "r" * 23 + "0abdb92d3d12bf8cd4f1b3b697b0f5ec-private"),
        (
            "a-service-with-quite-a-long-name-that-goes-on-and-on-00001",
            "a-service-with-quite-a-ed76bd127d900be3e788290621d50ba6-private",
        ),
        # md5 of 56 times "a", from coreutils' md5sum.
        ("a" * 56, "a" * 23 + "3b0c8ac703f828b04c6c197006d17218" + "-private"),
    ],
)
def test_the_private_service_of_a_revision(revision: str, name: str) -> None:
    assert private_service(revision) == name
    assert len(name) <= 63
    assert names_private_service(name)
    assert not names_private_service(revision)


@pytest.mark.parametrize(("minor", "version"), [(0, "1.0"), (1, "1.1"), (2, "2")])
def test_versions_of_http_have_names(minor, version):
    assert http_version(minor) == version
