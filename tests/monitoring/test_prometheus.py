"""The start of a Prometheus, by its log."""

from __future__ import annotations

import asyncio
import json
from itertools import permutations
from pathlib import Path

import pytest

from tests.monitoring.prometheus import Prometheus

LINES = (
    {"msg": "Listening on", "address": "127.0.0.1:4321"},
    {"msg": "Server is ready to receive web requests."},
    {"msg": "Completed loading of configuration file"},
)


@pytest.mark.parametrize("lines", list(permutations(LINES)))
async def test_its_port_is_known_whatever_its_threads_log_first(lines, tmp_path: Path) -> None:
    starting = Prometheus(tmp_path)
    log = asyncio.StreamReader()
    log.feed_data(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    log.feed_eof()
    await starting.listen(log)
    assert starting.port == 4321


async def test_a_start_that_ends_is_an_error_with_its_log(tmp_path: Path) -> None:
    log = asyncio.StreamReader()
    log.feed_data(b'{"msg": "Server is ready to receive web requests."}\n{"msg": "no port"}\n')
    log.feed_eof()
    with pytest.raises(AssertionError, match="no port"):
        await Prometheus(tmp_path).listen(log)
