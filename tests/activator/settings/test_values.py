"""Written forms of values: each accepted one gives its value; similar forms are refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from activator.settings import values
from tests.rows import in_one_test


@in_one_test(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("0s", 0.0),
        ("300ms", 0.3),
        ("45s", 45.0),
        ("1m30s", 90.0),
        ("1.5h", 5400.0),
        (".5s", 0.5),
        ("1.s", 1.0),
        ("1h15m30.918s", 4530.918),
        ("100us", 0.0001),
        ("100µs", 0.0001),
        ("100μs", 0.0001),
        ("7ns", 7e-9),
    ],
)
def test_durations_read_as_go_reads_them(text, seconds):
    assert values.parse_duration(text) == pytest.approx(seconds)


@pytest.mark.untraced
@pytest.mark.parametrize(
    "text",
    [
        *("", "300", "5", "s", ".s", ".", "1 s", " 1s", "1s ", "-1s", "+1s", "1d", "1S", "1_0s"),
        *("1e3s", "٣s", "1s2", "300ms\n", "10000000000s", "9" * 1000 + "s", "00", "0.0"),
    ],
)
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError, match="not a duration"):
        values.parse_duration(text)


@settings(deadline=None)  # a busy machine must not fail the test
@given(st.text())
def test_any_text_is_a_duration_or_a_value_error(text):
    try:
        assert 0 <= values.parse_duration(text) < values.MAX_DURATION
    except ValueError:
        pass


@in_one_test(
    ("text", "size"),
    [
        ("65536", 65536),
        ("64KiB", 65536),
        ("64Ki", 65536),
        ("1Mi", 2**20),
        ("2GiB", 2**31),
        ("64k", 64000),
        ("1MB", 10**6),
        ("5B", 5),
        ("0", 0),
    ],
)
def test_sizes_count_binary_and_decimal_units(text, size):
    assert values.parse_size(text) == size


@in_one_test("text", ["", "KiB", "1.5Mi", "-1", "64 KiB", "64KiBs", "64T", "9" * 30])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ValueError, match="not a size"):
        values.parse_size(text)


def test_booleans_are_those_of_go():
    assert [values.parse_bool(text) for text in ("1", "t", "True", "0", "F", "false")] == [
        *[True] * 3,
        *[False] * 3,
    ]
    for text in ("yes", "on", "", "tRUE", "2"):
        with pytest.raises(ValueError, match="not a boolean"):
            values.parse_bool(text)


@in_one_test(
    ("kind", "text", "value"),
    [
        (values.PORT, "0", 0),
        (values.PORT, "65535", 65535),
        (values.METRICS_PORT, "0", 0),
        (values.OPTIONAL_PORT, "", None),
        (values.OPTIONAL_PORT, "0", 0),
        (values.PATH_PREFIX, "", ""),
        (values.PATH_PREFIX, "/", ""),
        (values.PATH_PREFIX, "/a/b-c/", "/a/b-c"),
        (values.METRICS_PORT, "1024", 1024),
        (values.ADDRESS, "::1", "::1"),
        (values.ADDRESS, "localhost", "127.0.0.1"),
        (values.DOMAIN, "cluster.local.", "cluster.local"),
        (values.VERSION, "v1.34.0", "v1.34.0"),
        (values.VERSION, "1.34.0-rc.1", "1.34.0-rc.1"),
        (values.DNS_LABEL, "knative-serving", "knative-serving"),
        (values.OBJECT_NAME, "config-logging", "config-logging"),
        (values.url("ws", "wss"), "ws://[::1]:8080/x", "ws://[::1]:8080/x"),
        (values.url("ws", empty="off"), "", ""),
        (values.duration(zero=True), "0s", 0.0),
        (values.choice("a", "b"), "b", "b"),
        (values.choices("a", "b"), "b", ("b",)),
        (values.choices("a", "b"), "b, a,b", ("a", "b")),
        (values.count(1), "2147483647", 2**31 - 1),
        (values.FOLDER, "", None),
    ],
)
def test_kinds_accept(kind, text, value):
    assert kind.parse(text) == value


@in_one_test(
    ("kind", "text"),
    [(values.PORT, text) for text in ("65536", "-1", "", "80x", "8_0", " 80", "٨٠", "+80", "8.0")]
    + [(values.METRICS_PORT, text) for text in ("1", "1023", "65536")]
    + [(values.OPTIONAL_PORT, text) for text in ("-1", "65536", "off")]
    + [(values.PATH_PREFIX, text) for text in ("a", "/a b", "/a?b", "/a#b", "/é", 201 * "/")]
    + [(values.ADDRESS, text) for text in ("", "example.com", "1.2.3", "1.2.3.4:80", "[::1]")]
    + [(values.DOMAIN, text) for text in ("", ".", "a..b", "-a", "a_b", "A", "a" * 300)]
    + [(values.VERSION, text) for text in ("", "v1", "1.34", "latest", "v1.34.0\n")]
    + [(values.DNS_LABEL, text) for text in ("", "a.b", "a" * 64, "A")]
    + [(values.url("ws"), text) for text in ("", "http://a", "ws://", "a:8080", "ws://a:x")]
    + [(values.url("ws"), text) for text in ("ws://a:0", "ws://a:99999", "ws://a b", "ws://[x")]
    + [(values.duration(), text) for text in ("0", "0ms", "soon")]
    + [(values.SIZE, text) for text in ("0", "much")]
    + [(values.NAME, text) for text in ("", "a\nb")]
    + [(values.count(1), text) for text in ("0", "2147483648")]
    + [(values.FOLDER, text) for text in ("/nowhere/at/all", "a\0b")]
    + [(values.choice("a", "b"), text) for text in ("", "c", "A")]
    + [(values.choices("a", "b"), text) for text in ("", ",", "c", "a,c", "a,,b", "A")],
)
def test_kinds_refuse_with_value_error_and_nothing_else(kind, text):
    with pytest.raises(ValueError):  # noqa: PT011 - the message is made by the setting
        kind.parse(text)


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    assert values.FOLDER.parse(str(tmp_path)) == tmp_path
    with pytest.raises(ValueError, match="not a folder"):
        values.FOLDER.parse(str(tmp_path / "file"))
