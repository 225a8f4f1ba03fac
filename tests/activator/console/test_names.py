"""Names on the command line, and names that may have been meant."""

from __future__ import annotations

import json

import pytest

from activator.console.names import key, near
from activator.console.responses import parse


@pytest.mark.parametrize(
    ("words", "found"),
    [("hello", ("default", "hello")), ("shop/hello", ("shop", "hello"))],
)
def test_without_a_namespace_it_is_default(words, found):
    assert key(words) == found


def test_a_namespace_that_is_given_apart():
    assert key("hello", "shop") == key("shop/hello", "shop") == ("shop", "hello")
    with pytest.raises(ValueError, match="--namespace is 'shop', and the revision is 'a/hello'"):
        key("a/hello", "shop")


@pytest.mark.parametrize("words", ["", "/", "a/", "/a", "a/b/c"])
def test_other_words_are_no_revision(words):
    with pytest.raises(ValueError, match="expected NAMESPACE/REVISION or REVISION"):
        key(words)


@pytest.mark.parametrize(
    ("wanted", "offered"),
    [
        (("default", "helo-00001"), ["default/hello-00001", "default/hello-00002"]),
        (("default", "hello"), ["default/hello-00002", "default/hello-00001"]),
        (("default", "cart-00001"), ["shop/cart-00001"]),
        (("shop", "crt-00001"), ["shop/cart-00001"]),
        (("default", "zzz"), []),
        (("default", "wrong"), []),
    ],
)
def test_names_that_may_have_been_meant(wanted, offered):
    known = (("default", "hello-00001"), ("default", "hello-00002"), ("shop", "cart-00001"))
    answer = {"revisions": [{"namespace": ns, "name": name} for ns, name in known]}
    assert near(parse(json.dumps(answer)), *wanted)[: len(offered) or 1] == offered


def test_a_namespace_in_common_makes_no_name_similar():
    answer = {"revisions": [{"namespace": "default", "name": n} for n in ("web", "slow", "shop")]}
    assert near(parse(json.dumps(answer)), "default", "nope") == []
    assert near(parse(json.dumps(answer)), "default", "shpo") == ["default/shop"]
