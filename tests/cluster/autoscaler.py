"""Accepts the activators' reports in the place of Knative's autoscaler, and prints them.

``python -m tests.cluster.autoscaler`` prints ``namespace/name: average concurrency`` for each
report. It scales nothing: a test reads the lines from the pod's log, and sets the replicas.
"""

from __future__ import annotations

import asyncio

from websockets.asyncio.server import ServerConnection, serve

from tests.stats import decode


async def receive(connection: ServerConnection) -> None:
    """Print all reports of one activator."""
    async for frame in connection:
        if isinstance(frame, bytes):
            for stat in decode(frame)[0]:
                print(f"{stat.revision_id}: {stat.concurrency:g}", flush=True)


async def main() -> None:
    async with serve(receive, "0.0.0.0", 8080) as server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
