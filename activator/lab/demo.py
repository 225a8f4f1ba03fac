"""The demo: two sample services that scale from zero, a short guide, and a live account.

Puts a toy cluster, its manifests folder and the narrator together. Must not know how the activator
is built: the caller starts one that watches `Demo.manifests`, and passes its statistics to
`Demo.on_stats`.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from types import TracebackType

from activator.lab.addresses import AddressPool
from activator.lab.cluster import Cluster, Event, Service, Stat
from activator.lab.narrator import Narrator

#: One service that takes any number of requests at a time, and one that takes two per pod, so that
#: a queue can be watched.
SERVICES = (
    Service("hello", start_after=1.5, idle=15.0),
    Service("slow", container_concurrency=2, start_after=2.5, idle=15.0),
)

Print = Callable[[str], object]


class Demo:
    """A demo's world. Use it as a context manager, so that its folder is removed."""

    def __init__(
        self,
        services: Iterable[Service] = SERVICES,
        *,
        addresses: AddressPool | None = None,
    ) -> None:
        """Makes the manifests folder, with the services in it and no pods.

        Raises:
            OSError: there is no room for temporary files.
        """
        self.manifests = Path(tempfile.mkdtemp(prefix="activator-demo-"))
        self._services = tuple(services)
        self._narrator = Narrator()
        self._print: Print = lambda line: None
        self._cluster = Cluster(
            self.manifests, self._services, tell=self._tell, addresses=addresses
        )

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
        """Removes the manifests folder; the activator must have ended or will see no revisions."""
        shutil.rmtree(self.manifests, ignore_errors=True)

    def on_stats(self, stats: Iterable[Stat]) -> None:
        """Takes an activator's statistics: ((namespace, name), average concurrency, count) each.

        Returns at once; must be called on the thread of the loop that `run` runs on.
        """
        self._cluster.on_stats(stats)

    def on_queue(self, revision: tuple[str, str], reason: str) -> None:
        """Takes that requests of a revision, (namespace, name), begin to wait, and why.

        As `on_stats`, on the loop's thread.
        """
        self._cluster.on_queue(revision, reason)

    async def run(
        self,
        traffic: str = "127.0.0.1:8012",
        admin: str = "127.0.0.1:8080",
        print: Print = print,
    ) -> None:
        """Prints the guide and runs until cancelled; then all pods are ended, within seconds.

        Arguments:
            traffic: host and port where the activator takes requests.
            admin: host and port of its admin API.
            print: takes each line.
        """
        self._print = print
        for line in guide(traffic, admin, self.manifests):
            print(line)
        await self._cluster.run()

    def _tell(self, event: Event) -> None:
        for line in self._narrator.lines(event, datetime.now()):
            self._print(line)


def _command() -> str:
    """How to call the command line from where the demo was started."""
    found = shutil.which("activator")
    ours = Path(sys.executable).with_name("activator")
    if found is not None and Path(found).resolve() == ours.resolve():
        return "activator"
    return os.path.relpath(ours) if ours.is_relative_to(Path.cwd()) else str(ours)


def guide(traffic: str, admin: str, manifests: Path) -> list[str]:
    """What to try, as lines."""
    hello = f"curl -H 'Host: hello.default.svc.cluster.local' http://{traffic}"
    revision = "-H 'Knative-Serving-Namespace: default' -H 'Knative-Serving-Revision: slow'"
    slow = f"curl {revision} http://{traffic}"
    return [
        "",
        "Two services are scaled to zero: hello, and slow, whose pods take 2 requests at a time.",
        "In another terminal, try:",
        "",
        "  # held while a pod starts, then answered; a second time it is answered at once",
        f"  {hello}/",
        "",
        "  # eight requests of a second each: a queue, more pods; 15 s later none again",
        f"  for i in 1 2 3 4 5 6 7 8; do {slow}'/sleep?ms=1000' & done; wait",
        "",
        "  # when a line below says that hello-1 is ready for Kubernetes as well:",
        "  # make it not ready, and send a request that waits",
        f"  {hello}/toggleReady; sleep 2; {hello}/ &",
        "  # then make it ready again; SWITCHES is the address in hello-1's first line",
        "  curl http://SWITCHES/toggleReady",
        "",
        "  # pods, queues, capacity; and why a request waits",
        f"  {_command()} status --admin-url http://{admin}",
        f"  {_command()} explain hello --admin-url http://{admin}",
        f"  curl http://{admin}/api/v1/revisions    # the same as JSON; /metrics for Prometheus",
        "",
        "  # the same in a browser, as it changes",
        f"  http://{admin}/",
        "",
        f"Manifests: {manifests}    Ctrl-C ends the demo.",
        "With --log-level info, the activator's own log lines appear as well.",
        "What happens:",
        "",
    ]
