"""Traffic of which no request may be lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from activator.lab.programs import SteadyTraffic


@asynccontextmanager
async def traffic(load: SteadyTraffic) -> AsyncIterator[SteadyTraffic]:
    """Send requests meanwhile; all of them must get 200."""
    async with asyncio.TaskGroup() as tasks:
        load.start(tasks)
        try:
            yield load
        finally:
            await load.stop()
    for method, responses in load.responses.items():
        lost = [response for response in responses if response.status != 200]
        assert not lost, f"{method}: {len(lost)} of {len(responses)}, first {lost[0]}"
