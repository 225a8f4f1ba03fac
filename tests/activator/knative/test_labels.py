"""What the labels of an object mean."""

from __future__ import annotations

import pytest

from activator.knative.words import is_private, is_public, revision_of
from activator.objects.fields import ManifestError, root
from tests.activator.discovery.recording import A, private, public


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
