"""One cluster as tests use it: kubectl, objects, requests, and what the product's programs show."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx

from activator.lab.programs import ClientResponse, SteadyTraffic, fetch, open_and_close
from tests.cluster import network
from tests.cluster.control_plane import END_WITH_PARENT, URL, ControlPlane
from tests.cluster.programs import assets, client
from tests.process import PATIENCE, ROOT

Object = dict[str, Any]

SYSTEM: Final = "activator-system"
#: Seconds of a step that a cluster does, on a busy machine.
CLUSTER_PATIENCE: Final = 2 * PATIENCE

_POD: Final = f"{sys.executable} -m activator.lab.pod --report-requests"
#: Names the pod, and gives it an address; more arguments follow.
_SAMPLE: Final = ["sh", "-c", f'exec {_POD} --name "$POD" --address "$POD_ADDRESS" "$@"', "sh"]
#: What runs for the last part of an image's name: the entry point, and its default arguments.
_IMAGES: Final[dict[str, tuple[list[str], list[str]]]] = {
    "activator": ([str(Path(sys.prefix, "bin", "activator"))], ["run"]),
    # For the image of the examples: a small HTTP server, with its switches on port 8022.
    "nginx-unprivileged": (_SAMPLE, ["--plain", "--port", "8080", "--admin-port", "8022"]),
    # The same behind a queue-proxy, as in a pod of Knative.
    "sample": (_SAMPLE, ["--port", "8012"]),
    "curl": (["curl"], []),
}
#: What runs in the place of Knative's autoscaler. Pods do not start in the repository.
AUTOSCALER: Final = (
    *("env", f"PYTHONPATH={ROOT}", sys.executable),
    *("-m", "tests.cluster.autoscaler"),
)
#: Options of ``kubectl delete``: a namespace that does not end must not stop the run.
_GONE: Final = ("--ignore-not-found", "--timeout=60s")
_PATHS: Final = {
    "deployment": "/apis/apps/v1/namespaces/{}/deployments/",
    "service": "/api/v1/namespaces/{}/services/",
    "pod": "/api/v1/namespaces/{}/pods/",
    "slice": "/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices/",
    "event": "/apis/events.k8s.io/v1/namespaces/{}/events/",
    "lease": "/apis/coordination.k8s.io/v1/namespaces/{}/leases/",
}


class Done(NamedTuple):
    """A command that has ended; ``output`` is standard output and errors, in their order."""

    status: int
    output: str


class Cluster:
    """A running cluster in the network of this process.

    Attributes:
        environment: of commands: the kubeconfig, and a PATH with ``kubectl`` and ``activator``.
        control_plane: its programs, which a test may kill.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.control_plane = ControlPlane(assets(), folder)
        self._node: subprocess.Popen[bytes] | None = None
        path = [str(folder / "bin"), str(Path(sys.prefix, "bin")), os.environ["PATH"], "/usr/sbin"]
        self.environment = {
            "PATH": ":".join(path),
            "HOME": str(folder),
            "KUBECONFIG": str(self.control_plane.kubeconfig),
            "LANG": "C.UTF-8",
        }
        self._images = dict(_IMAGES)
        self._installed: tuple[str, ...] = ()

    def start(self) -> None:
        """Start control plane and node; this process is in a network of its own from then on.

        Raises:
            programs.Unavailable: it cannot run here.
            AssertionError: it did not start; the text has the end of the log.
        """
        kubectl, helm = client("kubectl"), client("helm")
        network.enter_own()
        self.control_plane.start()
        for name in ("pods", "bin"):
            (self._folder / name).mkdir()
        self._folder.chmod(0o755)
        self._write_images()
        (self._folder / "bin" / "helm").symlink_to(helm)
        wrapper = self._folder / "bin" / "kubectl"
        wrapper.write_text(
            "#!/bin/sh\n"
            f"export PYTHONPATH={ROOT}\n"
            'for word; do case "$word" in exec|port-forward)\n'
            f'exec {sys.executable} -m tests.cluster.kubectl {kubectl} {self._folder} "$@";;\n'
            "esac; done\n"
            f'exec {kubectl} "$@"\n'
        )
        wrapper.chmod(0o755)
        with (self._folder / "log" / "node.log").open("ab") as log:
            self._node = subprocess.Popen(
                [*END_WITH_PARENT, sys.executable, "-m", "tests.cluster.node", str(self._folder)],
                cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    def stop(self) -> None:
        """End all programs and pods, and remove their networks."""
        if self._node is not None:
            self._node.send_signal(signal.SIGTERM)
            try:
                self._node.wait(30)
            except subprocess.TimeoutExpired:
                self._node.kill()
        self.control_plane.stop()

    def image(self, name: str, entry: Sequence[str] = (), default: Sequence[str] = ()) -> None:
        """Set what runs for an image from now on; without an entry it cannot be pulled."""
        self._images[name] = (list(entry), list(default))
        if not entry:
            del self._images[name]
        self._write_images()

    def _write_images(self) -> None:
        new = self._folder / "images.new"
        new.write_text(json.dumps(self._images))
        new.replace(self._folder / "images.json")

    # Commands

    async def run(self, *command: str, stdin: str | None = None) -> Done:
        """Run a command in the repository, as a user of the cluster does."""
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=ROOT,
            env=self.environment,
            stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            output, _ = await process.communicate(None if stdin is None else stdin.encode())
        finally:
            if process.returncode is None:
                process.kill()
        return Done(await process.wait(), output.decode())

    async def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl, which must succeed, and return its output."""
        done = await self.run("kubectl", *arguments, stdin=stdin)
        assert done.status == 0, f"kubectl {shlex.join(arguments)}: {done.output}"
        return done.output

    async def apply(self, *objects: Object) -> None:
        """Apply objects, as a person does."""
        found = {"apiVersion": "v1", "kind": "List", "items": objects}
        await self.kubectl("apply", "-f", "-", stdin=json.dumps(found))

    async def explain(self, name: str, *options: str, namespace: str = SYSTEM) -> str:
        """Return what ``activator explain`` prints in the pod of an activator."""
        command = ("activator", "explain", name, *options)
        return await self.kubectl("-n", namespace, "exec", "deployment/activator", "--", *command)

    async def status(self) -> str:
        """Return what ``activator status`` prints in the pod of an activator."""
        command = ("activator", "status")
        return await self.kubectl("-n", SYSTEM, "exec", "deployment/activator", "--", *command)

    async def kill(self, namespace: str, pod: str, container: str) -> None:
        """Kill the process of a container, as the kernel does when memory is short."""
        os.kill(self.pid(namespace, pod, container), signal.SIGKILL)

    def pid(self, namespace: str, pod: str, container: str) -> int:
        """Return the process of a container that runs."""
        file = self._folder / "pods" / f"{namespace}_{pod}.json"
        found: int = json.loads(file.read_text())[container]
        return found

    @asynccontextmanager
    async def forward(self, reference: str, port: int) -> AsyncIterator[None]:
        """Forward a port of loopback to the same port of the product's pod."""
        process = await asyncio.create_subprocess_exec(
            *("kubectl", "-n", SYSTEM, "port-forward", reference, str(port)),
            env=self.environment,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        try:
            line = await process.stdout.readline()
            assert line.startswith(b"Forwarding from"), line
            yield
        finally:
            process.terminate()
            await process.wait()

    # Objects

    @asynccontextmanager
    async def api(self) -> AsyncIterator[httpx.AsyncClient]:
        """Provide a client of the API server with the administrator's rights."""
        context = ssl.create_default_context(cafile=str(self._folder / "ca.crt"))
        headers = {"Authorization": f"Bearer {self.control_plane.token}"}
        async with httpx.AsyncClient(base_url=URL, verify=context, headers=headers) as found:
            yield found

    async def find(self, kind: str, namespace: str = "default", selector: str = "") -> list[Object]:
        """Return the objects of a kind in a namespace that a label selector matches."""
        path = _PATHS[kind].format(namespace).removesuffix("/")
        async with self.api() as api:
            response = await api.get(path, params={"labelSelector": selector})
        found: list[Object] = response.raise_for_status().json()["items"]
        return found

    async def get(self, kind: str, name: str, namespace: str = "default") -> Object | None:
        """Return an object, or None."""
        async with self.api() as api:
            response = await api.get(_PATHS[kind].format(namespace) + name)
        if response.status_code == 404:
            return None
        found: Object = response.raise_for_status().json()
        return found

    async def replicas(self, name: str, namespace: str = "default") -> int:
        """Return the replicas that a Deployment shall have."""
        found = await self.get("deployment", name, namespace)
        assert found is not None
        number: int = found["spec"]["replicas"]
        return number

    async def pods(self, name: str, namespace: str = "default") -> list[Object]:
        """Return the pods of a workload that do not terminate."""
        found = await self.find("pod", namespace, f"app={name}")
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    async def endpoints(self, service: str, namespace: str = "default") -> list[str]:
        """Return the ready addresses of a Service, sorted, as kube-proxy reads them."""
        label = f"kubernetes.io/service-name={service}"
        found = {
            address
            for each in await self.find("slice", namespace, label)
            for endpoint in each.get("endpoints") or ()
            if endpoint.get("conditions", {}).get("ready") is not False
            for address in endpoint["addresses"]
        }
        return sorted(found)

    async def events(self, name: str, namespace: str = "default") -> list[str]:
        """Return the texts of the Events about a Service: ``reason: note``."""
        return [
            f"{event['reason']}: {event.get('note', '')}"
            for event in await self.find("event", namespace)
            if event.get("regarding", {}).get("name") == name
        ]

    async def leader(self) -> str:
        """Return the identity of the leading scaler, ``POD_ID``; empty if there is none."""
        lease = await self.get("lease", "activator-scale", SYSTEM)
        identity: str = lease["spec"].get("holderIdentity", "") if lease else ""
        return identity

    async def another_leader(self, than: str = "") -> str:
        """Wait until a scaler leads, but not the given one, and return its identity."""

        async def found() -> str:
            leader = await self.leader()
            return leader if leader != than else ""

        identity: str = await self.until(found, "a scaler leads")
        return identity

    # Waiting

    async def until(
        self, condition: Callable[[], Awaitable[object]], what: str, pause: float = 0.1
    ) -> Any:
        """Check a condition until it has a true value, and return the value.

        Arguments:
            pause: seconds between two checks.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + CLUSTER_PATIENCE
        while not (found := await condition()):
            assert loop.time() < end, f"waited in vain until {what}"
            passed = loop.create_future()
            loop.call_later(pause, passed.set_result, None)
            await passed
        return found

    async def sleeps(self, name: str, namespace: str = "default") -> None:
        """Wait until a Deployment has no pods."""

        async def asleep() -> bool:
            return not await self.find("pod", namespace, f"app={name}")

        await self.until(asleep, f"{namespace}/{name} sleeps")

    async def shows(self, name: str, text: str, *options: str, namespace: str = SYSTEM) -> str:
        """Wait until ``activator explain`` shows a text, and return all that it shows.

        An activator that has just lost the API server may not know the name yet.
        """
        last = ""

        async def shown() -> bool:
            nonlocal last
            words = ("activator", "explain", name, *options)
            pod = ("-n", namespace, "exec", "deployment/activator", "--")
            last = (await self.run("kubectl", *pod, *words)).output
            return text in last

        try:
            # A longer pause: this starts a process in the pod of an activator.
            await self.until(shown, f"explain {name} shows {text!r}", pause=0.5)
        except AssertionError as error:
            raise AssertionError(f"{error}. It shows:\n{last}") from None
        return last

    async def announced(self, name: str, text: str, namespace: str = "default") -> str:
        """Wait until an Event about a Service has a text, and return the Event."""

        async def found() -> str:
            return next((e for e in await self.events(name, namespace) if text in e), "")

        event: str = await self.until(found, f"an Event of {namespace}/{name} has {text!r}")
        return event

    # Requests

    async def address(self, service: str, namespace: str = "default") -> str:
        """Return the ClusterIP of a Service."""
        found = await self.get("service", service, namespace)
        assert found is not None, f"no Service {namespace}/{service}"
        ip: str = found["spec"]["clusterIP"]
        return ip

    async def ask(
        self,
        host: str,
        target: str = "/",
        headers: Mapping[str, str] | None = None,
        namespace: str = SYSTEM,
    ) -> ClientResponse:
        """Send a GET for a host to the activators, as an ingress does."""
        ip = await self.address("activator-service", namespace)
        return await fetch(ip, 80, target, headers={"Host": host, **(headers or {})})

    async def load(
        self,
        ip: str,
        host: str,
        rate: float,
        target: str = "/",
        port: int = 80,
        posts: int = 2,
    ) -> SteadyTraffic:
        """Return traffic on new connections. Status 0: lost.

        It waits until the node forwards connections, which is later than the Service's creation.

        Arguments:
            posts: one request in so many is a POST; 0 for none.
        """

        async def reachable() -> bool:
            try:
                await open_and_close(ip, port)
            except OSError:
                return False
            return True

        await self.until(reachable, f"{ip}:{port} accepts connections")

        async def send(method: str, request_id: str) -> ClientResponse:
            headers = {"Host": host, "X-Request-Id": request_id}
            try:
                return await fetch(ip, port, target, method, headers, b"x" * (method == "POST"))
            except OSError as error:
                return ClientResponse(0, {}, repr(error))

        return SteadyTraffic(send, rate, posts, target)

    # The product

    async def install(self, *command: str) -> None:
        """Install the product by a command, and remove what another command has installed."""
        if self._installed == command:
            return
        await self.uninstall()
        self._installed = command
        done = await self.run(*command)
        assert done.status == 0, f"{shlex.join(command)}: {done.output}"
        await self.rolled_out()

    async def uninstall(self) -> None:
        """Remove what `install` has installed, without a wait for requests."""
        if self._installed:
            force = ("--force", "--grace-period=0", "--ignore-not-found")
            roles = "clusterrole,clusterrolebinding,apiservice"
            await self.run("kubectl", "delete", roles, "-l", "app.kubernetes.io/name=activator")
            await self.run("kubectl", "-n", SYSTEM, "delete", "pods", "--all", *force)
            await self.run("kubectl", "delete", "namespace", SYSTEM, *_GONE)
        self._installed = ()

    async def rolled_out(self, *names: str) -> None:
        """Wait until Deployments of the product are available; without names: both."""
        for name in names or ("activator", "activator-scale"):
            command = ("rollout", "status", f"deployment/{name}", "--timeout=90s")
            await self.kubectl("-n", SYSTEM, *command)
