"""An activator with traffic that gives each of its metrics a value.

One service has repeated cold starts. The others have a full pod, a crashed pod, and no pod.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import trustme

from activator.lab.objects import revision
from tests.activator.discovery.recording import config_map
from tests.e2e.knative import ApiServer, Autoscaler, Deployment
from tests.process import ANY_PORTS, Activator, activator, until

#: The revisions for which the dashboards are queried.
NAMES = ("sleeper", "full", "crashed", "late")

#: Policies, so that their metrics have series.
ORDER = {
    "activator.dev/priority": "low",
    "activator.dev/fair-by": "client-ip",
    "activator.dev/sticky": "client-ip",
}
ADAPTIVE = {"activator.dev/adaptive-concurrency": "on"}
WAITING = {"activator.dev/while-waiting": "heartbeat"}


async def no_ingress() -> bool:
    return True


class Traffic:
    """The activator and its traffic; ``run`` plays it, and leaves requests queued."""

    def __init__(self, api: ApiServer, folder: Path) -> None:
        self.api = api
        self.sleeper = Deployment(api, "sleeper", 2)
        self.full = Deployment(api, "full", 1, ORDER)
        self.crashed = Deployment(api, "crashed", 0, ADAPTIVE)
        self.autoscaler = Autoscaler(self.sleeper, 2.0, no_ingress)
        self.folder = folder
        self.activator: Activator
        self._asking: set[asyncio.Task[tuple[int, str]]] = set()
        api.put(revision("late", timeout=1, uid="uid-of-late", annotations=WAITING))

    def ask(self, name: str) -> asyncio.Task[tuple[int, str]]:
        """Begin a request; the end of the traffic cancels queued requests."""
        task = asyncio.ensure_future(self.activator.ask(name))
        self._asking.add(task)
        return task

    async def run(self, scraped: Callable[[], Awaitable[float]]) -> float:
        """Play it.

        Arguments:
            scraped: returns a moment at which what has happened so far is known to Prometheus.

        Returns:
            Such a moment of the end.
        """
        self.crashed.scale_up(1)
        self.full.scale_up(1)
        await asyncio.gather(*(self.ask(name) for name in ("crashed", "full", "late")))
        (pod,) = self.crashed.pods
        await pod.end()  # Kubernetes lists it still
        self.ask("crashed")
        for _ in range(2):
            await self._wake()
            await scraped()
        self.full.gate.clear()
        held = [self.ask("full") for _ in range(4)]
        await self.activator.queued("full", 3)
        self.full.gate.set()
        await asyncio.gather(*held)
        await asyncio.gather(self.ask("late"), self.activator.ask("nobody"))
        self.full.gate.clear()
        for _ in range(3):
            self.ask("full")
        await self.activator.queued("full", 2)
        return await scraped()

    async def _wake(self) -> None:
        """Run a cold start, list the pod as ready after its first request, and scale to zero."""
        self.sleeper.kubelet.clear()
        status, _ = await self.ask("sleeper")
        assert status == 200, self.activator.log
        self.sleeper.kubelet.set()
        await self.sleeper.until(lambda: "ready" in self.sleeper.every[-1].events)
        await self.ask("sleeper")
        await self.sleeper.until(lambda: not self.sleeper.pods)  # the autoscaler's doing

        async def sleeps() -> bool:
            _, text = await self.activator.get("/metrics", listener="admin")
            name = 'activator_pods{k8s_namespace_name="default",kn_revision_name="sleeper",state='
            return not any(
                f'{name}"{state}"}} 1\n' in text for state in ("healthy", "probing", "draining")
            )

        await until(sleeps, "the sleeper has no pod")

    def give_up(self) -> None:
        for task in self._asking:
            task.cancel()


@asynccontextmanager
async def traffic(folder: Path) -> AsyncIterator[Traffic]:
    """An activator that follows a cluster, before anything has happened."""
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(ApiServer())
        for name in ("config-network", "config-logging", "config-observability"):
            api.put(config_map(name))
        all_of_it = Traffic(api, folder)
        for part in (
            *(all_of_it.sleeper, all_of_it.full, all_of_it.crashed),
            all_of_it.autoscaler,
        ):
            await stack.enter_async_context(part)
        # A certificate has metrics; Prometheus reads them from the admin port, without TLS.
        leaf = trustme.CA().issue_cert("localhost")
        leaf.private_key_and_cert_chain_pem.write_to_path(folder / "tls.pem")
        running = activator(
            *("run", *ANY_PORTS, "--self-check-interval", "1s"),
            environment={
                "POD_NAME": "activator-1",
                "METRICS_PROMETHEUS_TLS_CERT": str(folder / "tls.pem"),
                "METRICS_PROMETHEUS_TLS_KEY": str(folder / "tls.pem"),
                "POD_IP": "10.0.0.11",
                "SYSTEM_NAMESPACE": "knative-serving",
                "KUBECONFIG": api.kubeconfig(folder),
                "ACTIVATOR_AUTOSCALER_URL": all_of_it.autoscaler.url,
                "ACTIVATOR_SCALER_URL": "ws://127.0.0.1:1",  # nothing listens there
            },
        )
        all_of_it.activator = await stack.enter_async_context(running)
        await all_of_it.activator.logged("autoscaler connected")
        try:
            yield all_of_it
        finally:
            all_of_it.give_up()
