from __future__ import annotations

import pytest

from activator.lab.control_plane.status import ApiError
from activator.lab.control_plane.store import matches, selector
from tests.rows import naming

FOUND = {"metadata": {"name": "n", "namespace": "s", "labels": {"a": "1", "b": "2"}}}


def test_terms_select_by_labels():
    for text, wanted in (
        ("", True),
        ("a=1", True),
        ("a==1,b=2", True),
        ("a=2", False),
        ("a!=2", True),
        ("c!=2", True),
        ("a", True),
        ("c", False),
        ("!c", True),
        ("!a", False),
        ("a in (1, 3),b", True),
        ("a notin (1,3)", False),
        ("c notin (1)", True),
    ):
        with naming(text):
            assert selector({"labelSelector": text})(FOUND) is wanted


def test_terms_select_by_name_and_namespace():
    for text, wanted in (
        ("metadata.name=n", True),
        ("metadata.name!=n", False),
        ("metadata.name=n,metadata.namespace==t", False),
    ):
        with naming(text):
            assert selector({"fieldSelector": text})(FOUND) is wanted
    with pytest.raises(ApiError, match="field label not supported"):
        selector({"fieldSelector": "spec.other=1"})


def test_all_labels_of_a_selector_must_match():
    assert matches({"a": "1"}, FOUND)
    assert not matches({"a": "1", "c": "3"}, FOUND)
    assert not matches({"a": "1"}, {"metadata": {}})
