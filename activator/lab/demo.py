"""The demo: sample services that scale from zero, a short guide, and a line for each event.

It combines a toy cluster, its manifests folder and the narrator. The caller starts an activator
that watches `Demo.manifests`, and passes the activator's statistics to `Demo.on_stats`. One service
needs no Knative: :mod:`.plain.showcase` has its cluster and its scaler.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from types import TracebackType

from activator.lab.addresses import AddressPool
from activator.lab.cluster import Cluster, DemoEvent, DemoService, Stat
from activator.lab.narrator import Narrator
from activator.lab.plain.showcase import Showcase
from activator.lab.report import own_command

#: A service without a limit, and one with two requests per pod, so that a queue is visible.
SERVICES = (
    DemoService("hello", start_after=1.5, idle=15.0),
    DemoService("slow", container_concurrency=2, start_after=2.5, idle=15.0),
)

#: A Deployment with a Service, without Knative.
PLAIN = DemoService("web", start_after=1.5, idle=15.0)

Print = Callable[[str], object]


class Demo:
    """The demo's cluster and folder. Use it as a context manager, so that the folder is removed."""

    def __init__(
        self,
        services: Iterable[DemoService] = SERVICES,
        *,
        plain: DemoService = PLAIN,
        addresses: AddressPool | None = None,
    ) -> None:
        """Create the manifests folder with the services, without pods.

        Arguments:
            services: the services with a revision of Knative.
            plain: the service without Knative.

        Raises:
            OSError: the folder for temporary files is full or not writable.
        """
        self.manifests = Path(tempfile.mkdtemp(prefix="activator-demo-"))
        self._services = tuple(services)
        self._narrator = Narrator()
        self._print: Print = lambda line: None
        pool = addresses or AddressPool()
        self._cluster = Cluster(self.manifests, self._services, tell=self._tell, addresses=pool)
        self._plain = plain
        self._showcase = Showcase(self.manifests, plain, self._tell, pool)

    def __enter__(self) -> Demo:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove the manifests folder; end the activator first, or it loses all revisions."""
        shutil.rmtree(self.manifests, ignore_errors=True)

    def on_stats(self, stats: Iterable[Stat]) -> None:
        """Take an activator's statistics: ((namespace, name), average concurrency, count) each.

        It returns at once. The caller must be on the thread of the loop that `run` uses.
        """
        self._cluster.on_stats(stats)

    def on_queue(self, name: tuple[str, str], reason: str) -> None:
        """Note that requests of a service, (namespace, name), begin to wait, with the reason.

        The caller must be on the loop's thread, as for `on_stats`.
        """
        if name == (self._plain.namespace, self._plain.name):
            self._showcase.on_queue(reason)
        else:
            self._cluster.on_queue(name, reason)

    async def start(self) -> str:
        """Start the scaler; return the URL for the activator's reports of Services.

        The caller must call `run` afterwards, and `stop` in the end.

        Raises:
            OSError: it did not start.
        """
        return await self._showcase.start()

    async def run(
        self,
        traffic: str = "127.0.0.1:8012",
        admin: str = "127.0.0.1:8080",
        print: Print = print,
    ) -> None:
        """Print the guide, run the cluster until cancelled, then end all pods within seconds.

        Arguments:
            traffic: host and port where the activator takes requests.
            admin: host and port of its admin API.
            print: called with each line.
        """
        self._print = print
        shown = self._showcase
        for line in guide(traffic, admin, shown.admin, shown.kubeconfig, self.manifests):
            print(line)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._cluster.run())
            tasks.create_task(self._showcase.wait())

    async def stop(self) -> None:
        """End the scaler, and the pods without Knative; the activator no longer reports."""
        await self._showcase.close()

    def _tell(self, event: DemoEvent) -> None:
        for line in self._narrator.lines(event, datetime.now()):
            self._print(line)


def guide(traffic: str, admin: str, scaler: str, kubeconfig: Path, manifests: Path) -> list[str]:
    """Return commands to try, as lines of text.

    Arguments:
        traffic, admin, scaler: host and port for requests, of the activator's API, and of the
            scaler's API.
        kubeconfig: for the API server of the service without Knative.
    """
    hello = f"curl -H 'Host: hello.default.svc.cluster.local' http://{traffic}"
    web = f"curl -H 'Host: web.default.svc.cluster.local' http://{traffic}"
    revision = "-H 'Knative-Serving-Namespace: default' -H 'Knative-Serving-Revision: slow'"
    slow = f"curl {revision} 'http://{traffic}/sleep?ms=1000'"
    explain = f"{own_command()} explain"
    return [
        "",
        "Three services are scaled to zero: hello; slow, whose pods take 2 requests at a time;",
        "and web, a Deployment with a Service, which needs no Knative.",
        "In another terminal, try:",
        "",
        "  # the request waits while a pod starts; a second request gets its response at once",
        f"  {hello}/",
        "",
        "  # eight requests of one second each: a queue, then more pods; after 15 s no pod again",
        f"  for i in 1 2 3 4 5 6 7 8; do {slow} & done; wait",
        "",
        "  # without Knative: `activator scale` starts a pod of web. It stops the pod after 15 s",
        "  # without requests. In the first minute of the demo it stops no pod. See why:",
        f"  {web}/",
        f"  {explain} web --admin-url http://{admin} --scaler-admin-url http://{scaler}",
        f"  curl http://{scaler}/api/v1/services    # what the scaler knows, as JSON",
        f"  kubectl --kubeconfig {kubeconfig} get deployments,pods,endpointslices",
        "",
        "  # wait for the line 'pod hello-1 is ready for Kubernetes as well' below;",
        "  # then make the pod not ready, and send a request, which waits",
        f"  {hello}/toggleReady; sleep 2; {hello}/ &",
        "  # make it ready again; SWITCHES is the address in hello-1's first line",
        "  curl http://SWITCHES/toggleReady",
        "",
        "  # show pods, queues and capacity, and why a request waits",
        f"  {own_command()} status --admin-url http://{admin}",
        f"  {explain} hello --admin-url http://{admin}",
        f"  curl http://{admin}/api/v1/revisions    # the same as JSON; /metrics for Prometheus",
        "",
        "  # the same in a browser, live",
        f"  http://{admin}/",
        "",
        f"Manifests: {manifests}    Ctrl-C ends the demo.",
        f"`{own_command()} demo --log-level info` also prints the activator's own log lines.",
        "Events:",
        "",
    ]
