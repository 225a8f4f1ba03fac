from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from activator.knative.system_objects import SystemObjects, parse_config_map, parse_secret
from activator.objects.fields import ManifestError
from tests.activator.discovery.recording import config_map, secret, trust_bundle
from tests.activator.objects.test_fields import json_values

# No message may contain this text, for any error.
HIDDEN = "c2VjcmV0"


def test_a_config_map_is_its_texts() -> None:
    parsed = parse_config_map(config_map("c", a="b", _example="c"))
    assert parsed.data == {"a": "b", "_example": "c"}
    assert not parsed.is_trust_bundle


@pytest.mark.parametrize("value", ["true", "", "false"])
def test_the_label_makes_a_trust_bundle_whatever_its_value(value: str) -> None:
    obj = trust_bundle("bundle", "PEM")
    obj["metadata"]["labels"]["networking.knative.dev/trust-bundle"] = value
    assert parse_config_map(obj).is_trust_bundle


def test_a_secret_is_decoded() -> None:
    parsed = parse_secret(
        secret("s", "knative-serving", **{"tls.crt": b"certificate", "tls.key": b"\x00\xff"})
    )
    assert parsed.data == {"tls.crt": b"certificate", "tls.key": b"\x00\xff"}


def test_wrapped_base64_is_decoded() -> None:
    obj = secret("s", key=b"0123456789")
    obj["data"]["key"] = "MDEy\nMzQ1\r\nNjc4OQ==\n"
    assert parse_secret(obj).data == {"key": b"0123456789"}


def test_plain_texts_of_a_file_win() -> None:
    obj = secret("s", a=b"old", b=b"kept")
    obj["stringData"] = {"a": "new"}
    assert parse_secret(obj).data == {"a": b"new", "b": b"kept"}


def test_a_secret_without_data_is_empty() -> None:
    assert parse_secret({"metadata": {"name": "s"}, "data": None}).data == {}
    assert parse_secret({"metadata": {"name": "s"}, "data": {"a": None}}).data == {"a": b""}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": {"tls.key": HIDDEN + "!"}}, "data[tls.key]: expected base64"),
        ({"data": {"tls.key": HIDDEN[:-1]}}, "data[tls.key]: expected base64"),
        ({"data": {"tls.key": "sécret"}}, "data[tls.key]: expected base64"),
        ({"data": {"tls.key": [HIDDEN]}}, "data[tls.key]: expected a string"),
        ({"data": HIDDEN}, "data: expected an object"),
        ({"stringData": {"tls.key": {"a": HIDDEN}}}, "stringData[tls.key]: expected a string"),
        ({"stringData": [HIDDEN]}, "stringData: expected an object"),
    ],
)
def test_what_is_wrong_with_a_secret_is_named_and_not_shown(
    change: dict[str, Any], message: str
) -> None:
    with pytest.raises(ManifestError) as caught:
        parse_secret(secret("s") | change)
    assert str(caught.value).startswith(f"Secret knative-serving/s: {message}")
    for text in (HIDDEN, HIDDEN[:-1], "sécret", "s\\xe9cret"):
        assert text not in str(caught.value)


def test_a_secret_that_is_printed_shows_its_keys_alone() -> None:
    assert repr(parse_secret(secret("s", b=b"hidden", a=b"hidden"))) == "Secret(a, b)"


@given(json_values)
def test_any_value_gives_texts_or_the_typed_error(value: Any) -> None:
    for obj in ({"data": value}, {"stringData": value}, {"metadata": {"labels": value}}, value):
        for parse in (parse_config_map, parse_secret):
            try:
                parse(obj)
            except ManifestError:
                continue


def test_each_object_reaches_its_reader_and_others_are_ignored() -> None:
    read: list[object] = []
    objects = SystemObjects(
        {"config-network": read.append}, {"routing-serving-certs": read.append}, read.append
    )
    objects.set_config_map("config-network", {"a": "b"})
    objects.set_config_map("config-other", {"c": "d"})
    objects.set_secret("routing-serving-certs", {"tls.crt": b"e"})
    objects.set_secret("other", {"tls.crt": b"f"})
    objects.set_trust_bundles(("g", "h"))
    assert read == [{"a": "b"}, {"tls.crt": b"e"}, ("g", "h")]
