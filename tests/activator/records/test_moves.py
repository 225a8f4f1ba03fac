"""The lines of the process log on moves of addresses."""

from __future__ import annotations

import pytest

from tests.activator.test_driver import World
from throttler.model import AppProtocol, Endpoint, ListedEndpoints, RevisionID


async def test_a_loss_of_addresses_to_another_revision_is_a_warning_that_names_both(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world, thief = World(), RevisionID("default", "thief")
    world.revision()
    world.list_pods(["10.0.0.1:8012", "10.0.0.2:8012"])
    theirs = frozenset(Endpoint(f"10.0.0.{n}:8012", "new") for n in (1, 2))
    world.driver.set_endpoints(thief, {AppProtocol.HTTP1: ListedEndpoints(ready=theirs)})
    world.list_pods(["10.0.0.1:8012", "10.0.0.2:8012"])

    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage() in {
        f"address 10.0.0.{n}:8012 and 1 more moved from revision default/app to revision "
        "default/thief, which lists it for other pods"
        for n in (1, 2)
    }
