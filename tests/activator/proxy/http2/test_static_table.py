"""The static table is the one that the library hpack has."""

from __future__ import annotations

from hpack.table import HeaderTable

from activator.proxy.http2.static_table import STATIC_TABLE


def test_it_is_that_of_the_rfc():
    assert STATIC_TABLE == HeaderTable.STATIC_TABLE
    assert len(STATIC_TABLE) == 61
