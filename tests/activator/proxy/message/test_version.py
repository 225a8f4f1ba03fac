"""Versions of HTTP."""

from __future__ import annotations

import pytest

from activator.knative.words import http_version
from activator.proxy.message.fields import HTTP_2, HttpVersion
from activator.proxy.message.request import RequestLimits, read_request


@pytest.mark.parametrize(
    ("line", "version"),
    [
        (b"HTTP/1.0", HttpVersion.HTTP_1_0),
        (b"HTTP/1.1", HttpVersion.HTTP_1_1),
        (b"HTTP/1.2", HttpVersion.HTTP_1_1),
        (b"HTTP/1.9", HttpVersion.HTTP_1_1),
    ],
)
def test_a_request_has_the_version_that_it_is_read_as(line, version):
    head = b"GET / " + line + b"\r\nHost: h\r\n\r\n"
    assert read_request(head, RequestLimits()).version is version


def test_metrics_name_each_version_by_its_number():
    assert [http_version(each) for each in HttpVersion] == ["1.0", "1.1", "2"]
    assert http_version(HTTP_2) == "2"
