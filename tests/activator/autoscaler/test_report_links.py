"""Which autoscaler gets which load, and the effect of a lost link."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from activator.autoscaler.concurrency import Stat
from activator.autoscaler.reporter import LOST, Links
from tests.stats import decode
from throttler.model import RevisionID, RevisionKind

URL = "ws://127.0.0.1:1"
REVISION = Stat(RevisionID("default", "revision"), 1.0, 1)
SERVICE = Stat(RevisionID("default", "service", RevisionKind.SERVICE), 1.0, 1)


def no_callback(_stats: list[Stat]) -> Any:
    return lambda: None


def link(connected: bool, ever_connected: bool, lost_for: float = 0.0) -> Any:
    return SimpleNamespace(
        connected=connected, ever_connected=ever_connected, lost_for=lambda: lost_for
    )


async def test_without_urls_there_is_no_link_that_could_be_lost() -> None:
    links = Links()
    assert list(links) == list(links.sinks("activator-1", no_callback)) == []
    assert not any(map(links.is_lost, RevisionKind))
    assert not links.misses_autoscaler()


@pytest.mark.parametrize(
    ("urls", "name"), [((URL, ""), "default/revision"), (("", URL), "default/service")]
)
async def test_an_autoscaler_gets_the_load_of_its_kind(urls: tuple[str, str], name: str) -> None:
    links = Links(*urls)
    (only,) = links
    frames: list[bytes] = []
    only.send = lambda frame, _on_sent: frames.append(frame)  # type: ignore[method-assign,assignment]
    (sink,) = links.sinks("activator-1", no_callback)
    sink([REVISION, SERVICE])
    (frame,) = frames
    stats, pods = decode(frame)
    assert [str(each.revision_id) for each in stats] == [name]
    assert pods == {"activator-1"}


async def test_the_scaler_gets_route_objects_and_nobody_gets_their_fallbacks() -> None:
    links = Links(URL, URL)
    frames: dict[str, list[bytes]] = {"autoscaler": [], "scaler": []}
    for name, sent in frames.items():
        getattr(links, name).send = lambda frame, _on_sent, sent=sent: sent.append(frame)
    stats = [Stat(RevisionID("shop", kind.value, kind), 1.0, 1) for kind in RevisionKind]
    for sink in links.sinks("activator-1", no_callback):
        sink(stats)
    assert [each.revision_id.name for each in decode(frames["autoscaler"][0])[0]] == ["revision"]
    [routed] = frames["scaler"]
    assert [each.revision_id.name for each in decode(routed)[0]] == ["service", "http-route"]


async def test_an_autoscaler_without_a_connection_is_lost_for_its_kind_alone() -> None:
    links = Links(scaler_url=URL)
    assert links.is_lost(RevisionKind.SERVICE)
    assert not links.is_lost(RevisionKind.REVISION)


@pytest.mark.parametrize(
    ("autoscaler", "misses"),
    [
        (link(connected=False, ever_connected=False), True),
        (link(connected=True, ever_connected=True), False),
        (link(connected=False, ever_connected=True, lost_for=LOST - 1), True),
        (link(connected=False, ever_connected=True, lost_for=LOST + 1), False),
    ],
)
def test_a_missing_autoscaler_counts_until_a_long_loss(autoscaler: Any, misses: bool) -> None:
    links = Links()
    links.autoscaler = autoscaler
    assert links.misses_autoscaler() is misses
