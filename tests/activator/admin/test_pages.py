"""The list at ``/`` is complete and has two columns."""

from __future__ import annotations

from activator.admin.openapi import document
from activator.admin.pages import ENDPOINTS, index


def test_every_endpoint_is_listed_with_its_meaning():
    text = index("pod-1", "1.2.3")
    assert text.startswith("activator 1.2.3 on pod-1\n\n")
    rows = dict(line.split("  ", 1) for line in text.splitlines() if line.startswith("/"))
    assert {path: meaning.strip() for path, meaning in rows.items()} == dict(ENDPOINTS)


def test_all_that_the_openapi_document_has_is_listed():
    assert {path for path, _ in ENDPOINTS} - {"/"} == set(document("1.2.3")["paths"])
