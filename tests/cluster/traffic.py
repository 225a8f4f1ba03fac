"""Traffic of which no request may be lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from activator.lab.programs import SteadyTraffic


@asynccontextmanager
async def traffic(load: SteadyTraffic, lost: int = 0) -> AsyncIterator[SteadyTraffic]:
    """Send requests meanwhile; all of them must get 200.

    Arguments:
        lost: so many of each method may be lost.
    """
    async with asyncio.TaskGroup() as tasks:
        load.start(tasks)
        try:
            yield load
        finally:
            await load.stop()
    for method, responses in load.responses.items():
        found = [response for response in responses if response.status != 200]
        assert len(found) <= lost, f"{method}: {len(found)} of {len(responses)}, first {found[0]}"
