"""What the labels of an object mean."""

from __future__ import annotations

import pytest

from activator.knative import words
from activator.knative.words import (
    QUEUE_PROXY,
    http_version,
    is_private,
    is_public,
    names_private_service,
    private_service,
    revision_of,
)
from activator.objects.fields import ManifestError, root
from tests.activator.discovery.recording import A, private, public


def test_names_are_in_lower_case_and_protected() -> None:
    for name in words.OWN:
        assert name == name.lower()
        assert name.startswith(words.PREFIXES)


def test_lines_to_pods_name_the_same_fields() -> None:
    for line, name in (
        (words.ORIGINAL_HOST_START, words.ORIGINAL_HOST),
        (words.PROXY_LINE, words.PROXY_REQUEST),
        (words.NETWORK_HASH_START, words.NETWORK_HASH),
    ):
        assert line.partition(b": ")[0].lower() == name


def test_endpoints_are_private_or_public_by_their_labels() -> None:
    pods, name = root(private("10.0.0.1"), "Endpoints"), root(public("10.0.0.9"), "Endpoints")
    assert (is_private(pods), is_public(pods)) == (True, False)
    assert (is_private(name), is_public(name)) == (False, True)
    assert revision_of(pods) == revision_of(name) == A


def test_private_endpoints_need_the_revisions_uid() -> None:
    obj = private("10.0.0.1")
    del obj["metadata"]["labels"]["serving.knative.dev/revisionUID"]
    assert not is_private(root(obj, "Endpoints"))


@pytest.mark.parametrize("labels", [{}, {"serving.knative.dev/revision": "a b"}])
def test_an_object_without_a_revisions_name_is_refused(labels: dict[str, str]) -> None:
    obj = {"metadata": {"name": "x", "labels": labels}}
    with pytest.raises(ManifestError, match=r"labels\[serving.knative.dev/revision\]"):
        revision_of(root(obj, "Endpoints"))


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


def test_only_200_with_its_word_means_ready() -> None:
    assert QUEUE_PROXY.body == b"queue"
    assert [status for status in range(100, 600) if QUEUE_PROXY.accepts(status)] == [200]


def test_a_missing_revision_is_named() -> None:
    text = 'Error getting active endpoint: revision.serving.knative.dev "rev" not found'
    assert words.not_found("rev") == text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (b"queue", "queue"),
        (b"<a href='x'>&\"", "&lt;a href=&#39;x&#39;&gt;&amp;&#34;"),
        (b"\\\t", "\\\\\\t"),
        (b"\xff", "\\xff"),
        ("\u2028".encode(), "\\u2028"),
        (b"x" * 500, "x" * 200),
    ],
)
def test_the_value_of_a_probe_is_quoted_as_by_go(value: bytes, shown: str) -> None:
    assert words.unexpected_probe(value) == f'unexpected probe header value: "{shown}"'
