"""The index page: well-formed, and whatever comes from outside is text."""

from __future__ import annotations

from html.parser import HTMLParser

from activator.admin.pages import ENDPOINTS, index


class Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.text += data


def read(pod_name):
    reader = Reader()
    reader.feed(index(pod_name, "1.2.3"))
    return reader


def test_every_endpoint_is_listed_with_its_meaning():
    text = read("pod-1").text
    for path, _, meaning in ENDPOINTS:
        assert path in text
        assert meaning in text
    assert "activator 1.2.3 on pod-1" in text


def test_a_name_adds_no_markup():
    evil = '"><script>alert(1)</script><img src=x>'
    assert read(evil).tags == read("plain").tags
    assert evil in read(evil).text
