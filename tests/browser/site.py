"""The environment of a dashboard test: an activator as a process, revisions, and their pods.

Pods run on the test's loop, so that a test can delay their responses.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from activator.lab.objects import private_endpoints, revision, write_object
from tests.e2e.knative import Pod
from tests.ports import hold, port_of
from tests.process import ANY_PORTS, Activator, activator


class App:
    """One revision, its pods, and the requests that were sent to it.

    Attributes:
        key: NAMESPACE/NAME, as the dashboard shows it.
        gate: while it is not set, no pod responds.
        pods: all started pods, in order.
    """

    def __init__(self, site: Site, name: str, **settings: Any) -> None:
        """Write the Revision, without a pod; for settings see `activator.lab.objects.revision`."""
        self.name = name
        self.key = f"default/{name}"
        self.gate = asyncio.Event()
        self.gate.set()
        self.pods: list[Pod] = []
        self._site = site
        self._asked: list[asyncio.Task[tuple[int, str]]] = []
        uid = f"uid-of-{name}"
        self._files = {write_object(site.manifests, revision(name, uid=uid, **settings))}
        self.list_pods()

    def ask(self, count: int = 1) -> list[asyncio.Task[tuple[int, str]]]:
        """Begin so many requests; `close` cancels requests without a response."""
        begun = [asyncio.ensure_future(self._site.activator.ask(self.name)) for _ in range(count)]
        self._asked += begun
        return begun

    async def start_pod(self, *, ready: bool = True) -> Pod:
        """Start one more pod, and list it."""
        pod = Pod(f"{self.name}-{len(self.pods) + 1}", self.gate, quiet_period=0)
        await pod.start()
        self.pods.append(pod)
        self.list_pods(ready=ready)
        return pod

    def list_pods(self, *, ready: bool = True) -> None:
        """List all pods in Endpoints, as ready or as not ready."""
        listed = [pod.listed(ready=ready) for pod in self.pods]
        self._files.add(write_object(self._site.manifests, private_endpoints(self.name, listed)))

    def unlist_pods(self) -> None:
        """Remove all pods from Endpoints."""
        write_object(self._site.manifests, private_endpoints(self.name, ()))

    @asynccontextmanager
    async def full(self, count: int) -> AsyncIterator[None]:
        """Keep so many requests in flight and queued during the block."""
        self.gate.clear()
        asked = self.ask(count)
        try:
            yield
        finally:
            self.gate.set()
            await asyncio.gather(*asked, return_exceptions=True)  # the test says what is wrong

    async def close(self) -> None:
        """Remove the revision, its pods and requests."""
        for task in self._asked:
            task.cancel()
        await asyncio.gather(*self._asked, return_exceptions=True)
        for file in self._files:
            file.unlink()
        self.gate.set()
        await asyncio.gather(*(pod.end() for pod in self.pods))
        for pod in self.pods:
            pod.release()


class Site:
    """An activator that watches a folder.

    Attributes:
        manifests: the folder.
        activator: the process.
        url: the address of its dashboard; a restart does not change it.
    """

    def __init__(self, folder: Path) -> None:
        self.manifests = folder / "manifests"
        self.manifests.mkdir()
        self.activator: Activator
        self.url = ""
        self._stack = AsyncExitStack()
        self._held = hold()  # reserves the admin port while the activator does not run

    async def __aenter__(self) -> Site:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.stop()
        self._held.close()

    async def start(self) -> None:
        """Start the activator, always on the same admin port."""
        running = activator(
            *("local", "--manifests", str(self.manifests), *ANY_PORTS),
            *("--admin-port", str(port_of(self._held))),
        )
        self.activator = await self._stack.enter_async_context(running)
        host, port = await self.activator.address("admin")
        self.url = f"http://{host}:{port}/"

    async def stop(self) -> None:
        """Kill it."""
        await self._stack.aclose()

    @asynccontextmanager
    async def app(self, name: str, pods: int = 0, **settings: Any) -> AsyncIterator[App]:
        """Provide a revision that the activator knows.

        Arguments:
            pods: the number of its first pods.
            settings: arguments of `activator.lab.objects.revision`.
        """
        made = App(self, name, **settings)
        try:
            await self.activator.queued(name, 0)  # an earlier request would get 404
            for _ in range(pods):
                await made.start_pod()
            yield made
        finally:
            await made.close()

    def page_of(self, app: App) -> str:
        """Return the address of a revision's page."""
        return f"{self.url}#/revisions/{app.key}"
