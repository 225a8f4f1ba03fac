"""The node of the cluster: runs pods as processes, as kubelet, scheduler, kube-proxy and DNS do.

``python -m tests.cluster.node FOLDER`` runs in the node's network until SIGTERM. FOLDER has the
kubeconfig, and ``images.json``: what runs for an image. Each pod has a network namespace and an
address of its own, the user and capabilities of its security context, a ServiceAccount token, and
DNS. Containers have probes, ``preStop``, a grace period, restarts with back-off, and logs. Volumes,
init containers and NetworkPolicies are not there. The CPU of a container is limited once its pod
was resized. Kubernetes' counterpart: pkg/kubelet.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import ssl
import sys
import time
from asyncio.subprocess import DEVNULL, STDOUT, Process
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import httpx

from tests.cluster import dns
from tests.cluster.control_plane import END_WITH_PARENT, URL
from tests.cluster.cpu import CpuGroup, thousandths
from tests.cluster.network import DNS, NODE, Object, PodNetwork, load_rules

NAME: Final = "node-1"
#: Seconds until a container that ended starts again: the first time, and then up to this.
FIRST_BACKOFF: Final = 1.0
MAX_BACKOFF: Final = 20.0
#: What a field of the downward API means.
_FIELDS: Final[dict[str, Callable[[Pod], str]]] = {
    "metadata.name": lambda pod: pod.name,
    "metadata.namespace": lambda pod: pod.namespace,
    "metadata.uid": lambda pod: pod.uid,
    "status.podIP": lambda pod: pod.network.ip,
    "status.podIPs": lambda pod: pod.network.ip,
    "status.hostIP": lambda pod: NODE,
    "spec.nodeName": lambda pod: NAME,
}


def log(*words: object) -> None:
    print(f"{time.time():.3f}", *words, flush=True)


def timestamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Api:
    """Requests to the API server, which are repeated while it is away."""

    def __init__(self, folder: Path) -> None:
        config = json.loads((folder / "kubeconfig").read_text())
        context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        self._http = httpx.AsyncClient(
            base_url=URL,
            verify=context,
            headers={"Authorization": f"Bearer {config['users'][0]['user']['token']}"},
            timeout=httpx.Timeout(30, read=None),
            limits=httpx.Limits(max_connections=None),
        )

    async def send(
        self, method: str, path: str, body: Object, kind: str = "application/json"
    ) -> Object:
        """Return the response's object; an error status is logged and returned."""
        while True:
            try:
                response = await self._http.request(
                    method, path, content=json.dumps(body), headers={"Content-Type": kind}
                )
            except httpx.TransportError:
                await asyncio.sleep(0.2)
                continue
            if response.is_error and response.status_code not in (404, 409):
                log(method, path, response.status_code, response.text[:300])
            found: Object = response.json()
            return found

    async def follow(self, path: str, changed: Callable[[str, Object], None]) -> None:
        """List the objects of a path, then watch them, for ever.

        Arguments:
            changed: called with ``MODIFIED`` or ``DELETED``, and the object.
        """
        known: dict[str, Object] = {}
        while True:
            with suppress(httpx.TransportError, ValueError, KeyError):
                listed = (await self._http.get(path)).raise_for_status().json()
                found = {item["metadata"]["uid"]: item for item in listed["items"]}
                for uid in known.keys() - found.keys():
                    changed("DELETED", known.pop(uid))
                for uid, item in found.items():
                    known[uid] = item
                    changed("MODIFIED", item)
                query = {"watch": "1", "resourceVersion": listed["metadata"]["resourceVersion"]}
                async with self._http.stream("GET", path, params=query) as lines:
                    async for line in lines.aiter_lines():
                        event = json.loads(line)
                        if event["type"] == "ERROR":
                            break
                        uid = event["object"]["metadata"]["uid"]
                        if event["type"] == "DELETED":
                            known.pop(uid, None)
                            changed("DELETED", event["object"])
                        else:
                            known[uid] = event["object"]
                            changed("MODIFIED", event["object"])
            await asyncio.sleep(0.2)


class State(Enum):
    """The states of a container, as the status of its pod names them."""

    WAITING = "waiting"
    RUNNING = "running"
    TERMINATED = "terminated"


class Container:
    """One container of a pod, over all its restarts."""

    def __init__(self, pod: Pod, spec: Object) -> None:
        self.pod = pod
        self.spec = spec
        self.name: str = spec["name"]
        self.state = State.WAITING
        self.reason = "ContainerCreating"
        self.is_ready = False
        self.pid = 0
        self.resources: Object = spec.get("resources") or {}
        self._cpu = CpuGroup(f"{pod.network.name}-{self.name}")
        self._is_started = False
        self._restarts = 0
        self._status = 0
        self._since = timestamp()
        self._last: Object = {}
        self._must_restart = asyncio.Event()

    @property
    def log(self) -> Path:
        return self.pod.node.log(self.pod.namespace, self.pod.name, self.name)

    def resize(self, resources: Object) -> None:
        """Apply the resources that the pod asks for now."""
        if resources == self.resources:
            return
        self.resources = resources
        if self.pid:
            self._cpu.limit(self.pid, thousandths(resources, "limits"))
        self.pod.changed.set()

    async def run(self) -> None:
        """Run the container until its pod ends, or until it has ended and must not restart."""
        pod, backoff = self.pod, 0.0
        argv = pod.node.command(self.spec)
        if argv is None:
            self._change(State.WAITING, "ErrImagePull")
            return
        while True:
            process = await self._start(argv)
            try:
                async with asyncio.TaskGroup() as tasks:
                    probes = [tasks.create_task(self._probe(kind)) for kind in _PROBES]
                    await _first(process.wait(), self._must_restart.wait(), pod.stopping.wait())
                    if process.returncode is None:
                        await self._stop(process)
                    for probe in probes:
                        probe.cancel()
            finally:
                with suppress(ProcessLookupError):
                    process.kill()
                self._cpu.remove()
            ended = process.returncode or 0
            self._status = ended if ended >= 0 else 128 - ended
            policy = pod.object["spec"].get("restartPolicy", "Always")
            is_final = policy == "Never" or (policy == "OnFailure" and not self._status)
            if pod.stopping.is_set() or is_final:
                self._change(State.TERMINATED)
                return
            self._last = {"terminated": self._terminated()}
            self._restarts += 1
            self.log.rename(self.log.with_suffix(".previous"))
            self._change(State.WAITING, "CrashLoopBackOff" if backoff else "ContainerCreating")
            await _first(asyncio.sleep(backoff), pod.stopping.wait())
            if pod.stopping.is_set():
                return
            backoff = min(MAX_BACKOFF, backoff * 2 or FIRST_BACKOFF)

    async def _start(self, argv: list[str]) -> Process:
        pod = self.pod
        context = (pod.object["spec"].get("securityContext") or {}) | (
            self.spec.get("securityContext") or {}
        )
        user: list[str] = []
        if "runAsUser" in context:
            uid, gid = context["runAsUser"], context.get("runAsGroup", 0)
            user = ["setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups"]
            user += ["--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]
            user += ["--pdeathsig=KILL"]  # another user removes the first one
        with self.log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                *END_WITH_PARENT,
                *("nsenter", f"--net=/run/netns/{pod.network.name}", "unshare", "--mount"),
                *("sh", "-ec", _MOUNTS, str(pod.folder), *user, *argv),
                env=self._environment(),
                stdin=DEVNULL,
                stdout=output,
                stderr=STDOUT,
                start_new_session=True,
            )
        self.pid = process.pid
        self._must_restart.clear()
        self._is_started = "startupProbe" not in self.spec
        self.is_ready = self._is_started and "readinessProbe" not in self.spec
        self._change(State.RUNNING)
        return process

    def _environment(self) -> dict[str, str]:
        path = f"{sys.prefix}/bin:{os.environ['PATH']}"  # images have their programs on it
        found = {"PATH": path, "HOME": "/", "HOSTNAME": self.pod.name}
        found |= {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}
        found |= {"POD": self.pod.name, "POD_ADDRESS": self.pod.network.ip}  # for images.json
        labels = self.pod.object["metadata"].get("labels") or {}
        for variable in self.spec.get("env") or ():
            field = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
            label = field.removeprefix("metadata.labels['").removesuffix("']")
            value = labels.get(label, variable.get("value", ""))
            value = _FIELDS[field](self.pod) if field in _FIELDS else value
            found[variable["name"]] = value
        return found

    async def _stop(self, process: Process) -> None:
        """Call ``preStop``, send SIGTERM, and SIGKILL after the grace period."""
        hook = self.spec.get("lifecycle", {}).get("preStop", {})
        with suppress(TimeoutError):
            async with asyncio.timeout(self.pod.grace):
                if "sleep" in hook:
                    await _first(asyncio.sleep(hook["sleep"]["seconds"]), process.wait())
                if "httpGet" in hook:
                    await self._passes({"httpGet": hook["httpGet"], "timeoutSeconds": 600})
                with suppress(ProcessLookupError):
                    process.terminate()
                await process.wait()
        if process.returncode is None:
            log(self.pod.name, self.name, "SIGKILL after", self.pod.grace, "s")
            process.kill()
            await process.wait()

    async def _probe(self, kind: str) -> None:
        """Run one kind of probe, as long as the process runs."""
        probe = self.spec.get(kind)
        if probe is None:
            return
        passed = failed = 0
        await asyncio.sleep(probe.get("initialDelaySeconds", 0.1))
        while True:
            if kind == "startupProbe" or self._is_started:
                passes = await self._passes(probe)
                passed, failed = (passed + 1, 0) if passes else (0, failed + 1)
                has_failed = failed >= probe.get("failureThreshold", 3)
                if kind == "readinessProbe":
                    if passed >= probe.get("successThreshold", 1) or has_failed:
                        self._set_ready(passes)
                elif has_failed and not self.pod.stopping.is_set():
                    log(self.pod.name, self.name, kind, "failed")
                    self._must_restart.set()
                    return
                elif kind == "startupProbe" and passes:
                    self._is_started = True
                    self._set_ready("readinessProbe" not in self.spec)
                    return
            await asyncio.sleep(probe.get("periodSeconds", 10) if self._is_started else 0.1)

    async def _passes(self, probe: Object) -> bool:
        try:
            async with asyncio.timeout(probe.get("timeoutSeconds", 1)):
                if "exec" in probe:
                    process = await asyncio.create_subprocess_exec(
                        *("nsenter", f"--target={self.pid}", "--net", "--mount"),
                        *probe["exec"]["command"],
                        stdout=DEVNULL,
                        stderr=DEVNULL,
                    )
                    return await process.wait() == 0
                if "httpGet" in probe:
                    return await self._finds(probe["httpGet"])
                port = self._port((probe.get("tcpSocket") or probe["grpc"])["port"])
                _, writer = await asyncio.open_connection(self.pod.network.ip, port)
                writer.close()
                return True
        except (OSError, TimeoutError, ValueError, IndexError):
            return False

    async def _finds(self, get: Object) -> bool:
        ip, port = self.pod.network.ip, self._port(get["port"])
        reader, writer = await asyncio.open_connection(ip, port)
        lines = [f"GET {get.get('path', '/')} HTTP/1.1", f"Host: {ip}:{port}"]
        lines += ["User-Agent: kube-probe/1.36", "Connection: close"]
        lines += [f"{field['name']}: {field['value']}" for field in get.get("httpHeaders") or ()]
        try:
            writer.write("\r\n".join([*lines, "", ""]).encode())
            return 200 <= int((await reader.readline()).split()[1]) < 400
        finally:
            writer.close()

    def _port(self, name: str | int) -> int:
        if isinstance(name, int):
            return name
        ports = self.spec.get("ports") or ()
        return next(port["containerPort"] for port in ports if port.get("name") == name)

    def _set_ready(self, is_ready: bool) -> None:
        if is_ready != self.is_ready:
            self.is_ready = is_ready
            self.pod.changed.set()

    def _change(self, state: State, reason: str = "") -> None:
        self.state, self.reason, self._since = state, reason, timestamp()
        if state is not State.RUNNING:
            self.is_ready, self.pid = False, 0
        log(self.pod.name, self.name, state.value, reason)
        self.pod.changed.set()

    def _terminated(self) -> Object:
        reason = "Error" if self._status else "Completed"
        times = {"startedAt": self._since, "finishedAt": timestamp()}
        return {"exitCode": self._status, "reason": reason, **times}

    def status(self) -> Object:
        """Return the entry of this container in the status of its pod."""
        details: dict[State, Object] = {
            State.WAITING: {"reason": self.reason},
            State.RUNNING: {"startedAt": self._since},
            State.TERMINATED: self._terminated(),
        }
        if self.reason == "ErrImagePull":
            details[State.WAITING]["message"] = f"no such image: {self.spec['image']}"
        return {
            "name": self.name,
            "image": self.spec["image"],
            "imageID": "",
            "ready": self.is_ready,
            "started": self._is_started,
            "restartCount": self._restarts,
            "resources": self.resources,
            "state": {self.state.value: details[self.state]},
            "lastState": self._last,
        }


_PROBES: Final = ("startupProbe", "readinessProbe", "livenessProbe")
#: Binds what a container sees of its pod; $0 is the pod's folder.
_MOUNTS: Final = """
mount --make-rprivate /
mkdir -p /run/secrets/kubernetes.io/serviceaccount
mount --bind "$0/serviceaccount" /run/secrets/kubernetes.io/serviceaccount
mount --bind "$0/resolv.conf" /etc/resolv.conf
cd /
exec "$@"
"""


async def _first(*awaitables: Any) -> None:
    """Wait until one of several is done; cancel the others."""
    tasks = [asyncio.ensure_future(each) for each in awaitables]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


class Pod:
    """One pod of the node, from its object to its end.

    Attributes:
        object: as the API server has it.
        stopping: set when the object is marked as deleted.
        changed: set when the status may have changed.
    """

    def __init__(self, node: Node, found: Object, network: PodNetwork) -> None:
        self.node = node
        self.object: Object = found
        self.network: PodNetwork = network
        self.namespace: str = found["metadata"]["namespace"]
        self.name: str = found["metadata"]["name"]
        self.uid: str = found["metadata"]["uid"]
        self.folder = node.folder / "pods" / self.uid
        self.stopping = asyncio.Event()
        self.changed = asyncio.Event()
        self.containers = [Container(self, spec) for spec in found["spec"]["containers"]]
        self._since: dict[str, tuple[bool, str]] = {}
        self._started_at = timestamp()

    @property
    def grace(self) -> float:
        """Seconds from the end of a pod to SIGKILL."""
        own = self.object["spec"].get("terminationGracePeriodSeconds", 30)
        seconds: float = self.object["metadata"].get("deletionGracePeriodSeconds", own)
        return seconds

    async def run(self) -> None:
        """Bind the pod, run it until it is deleted, and delete its object."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"
        target = {"apiVersion": "v1", "kind": "Node", "name": NAME}
        binding = {"metadata": {"name": self.name}, "target": target}
        await self.node.api.send("POST", f"{path}/binding", binding)
        bound = await self.node.api.send("GET", path, {})
        self.object = bound if "spec" in bound else self.object  # with the labels of its zone
        await self.network.make()
        try:
            await self._write_files()
            async with asyncio.TaskGroup() as tasks:
                reporting = tasks.create_task(self._report(path))
                async with asyncio.TaskGroup() as running:
                    for container in self.containers:
                        running.create_task(container.run())
                await self.stopping.wait()
                reporting.cancel()
        except Exception as error:  # a pod that fails must not end the others
            log(self.name, "failed:", repr(error))
            await self.stopping.wait()  # as in a cluster, its object stays until then
        finally:
            await self.network.remove()
            log(self.name, "removed")
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": self.uid}}
        await self.node.api.send("DELETE", path, body)

    async def _write_files(self) -> None:
        files = self.folder / "serviceaccount"
        files.mkdir(parents=True)
        account = self.object["spec"].get("serviceAccountName", "default")
        reference = {"apiVersion": "v1", "kind": "Pod", "name": self.name, "uid": self.uid}
        issued = await self.node.api.send(
            "POST",
            f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{account}/token",
            {"spec": {"boundObjectRef": reference, "expirationSeconds": 3600}},
        )
        (files / "token").write_text(issued.get("status", {}).get("token", ""))
        (files / "namespace").write_text(self.namespace)
        (files / "ca.crt").write_bytes((self.node.folder / "ca.crt").read_bytes())
        domains = [f"{self.namespace}.svc.cluster.local", "svc.cluster.local", "cluster.local"]
        (self.folder / "resolv.conf").write_text(
            f"nameserver {DNS}\nsearch {' '.join(domains)}\noptions ndots:5\n"
        )

    async def _report(self, path: str) -> None:
        """Write the status when it has changed."""
        kind, written = "application/strategic-merge-patch+json", None
        while True:
            await self.changed.wait()
            self.changed.clear()
            status = self._status()
            pids = {container.name: container.pid for container in self.containers}
            self.node.pids(self.namespace, self.name).write_text(json.dumps(pids))
            if status != written:
                await self.node.api.send("PATCH", f"{path}/status", {"status": status}, kind)
                written = status

    def _status(self) -> Object:
        is_ready = all(container.is_ready for container in self.containers)
        conditions = []
        for name in ("PodScheduled", "Initialized", "ContainersReady", "Ready"):
            holds = is_ready or name in ("PodScheduled", "Initialized")
            if self._since.get(name, (not holds,))[0] != holds:
                self._since[name] = (holds, timestamp())
            since = self._since[name][1]
            value = "True" if holds else "False"
            conditions.append({"type": name, "status": value, "lastTransitionTime": since})
        states = {container.state for container in self.containers}
        has_run = any(container.status()["lastState"] for container in self.containers)
        phase = "Running" if State.RUNNING in states or has_run else "Pending"
        if states == {State.TERMINATED}:
            phase = "Succeeded"
        return {
            "phase": phase,
            "podIP": self.network.ip,
            "podIPs": [{"ip": self.network.ip}],
            "hostIP": NODE,
            "startTime": self._started_at,
            "conditions": conditions,
            "containerStatuses": [container.status() for container in self.containers],
        }


class Node:
    """The only node of the cluster."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.api = Api(folder)
        self._pods: dict[str, Pod] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._tasks = asyncio.TaskGroup()
        self._numbers = iter(range(2, 65000))
        self._services: dict[str, Object] = {}
        self._slices: dict[str, Object] = {}
        self._routes_changed = asyncio.Event()

    def log(self, namespace: str, pod: str, container: str) -> Path:
        """Return the log file of a container."""
        return self.folder / "log" / f"{namespace}_{pod}_{container}.log"

    def pids(self, namespace: str, pod: str) -> Path:
        """Return the file with the process of each container, for ``kubectl exec``."""
        return self.folder / "pods" / f"{namespace}_{pod}.json"

    def command(self, spec: Object) -> list[str] | None:
        """Return what runs for a container, or None if its image is unknown.

        ``images.json`` is read each time: tests change what runs for an image.
        """
        images = json.loads((self.folder / "images.json").read_text())
        image = spec["image"].rpartition("/")[2].partition("@")[0].partition(":")[0]
        entry, default = images.get(image, ([], []))
        given: list[str] = spec.get("command") or []
        arguments: list[str] = spec.get("args") or ([] if given else default)
        if entry:
            return [*entry, *given[1:], *arguments]
        return [*given, *arguments] if given else None

    async def run(self) -> None:
        """Run all pods until SIGTERM."""
        await self._register()
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(str(self.folder / "server.crt"), str(self.folder / "server.key"))
        logs = await asyncio.start_server(self._serve_logs, NODE, 10250, ssl=context)
        names = dns.Names(self._services, self._slices)
        await names.listen(DNS)
        paths = {
            "/api/v1/pods": self._on_pod,
            "/api/v1/services": self._keep(self._services),
            "/apis/discovery.k8s.io/v1/endpointslices": self._keep(self._slices),
        }
        async with self._tasks as tasks:
            following = [tasks.create_task(self.api.follow(*each)) for each in paths.items()]
            following.append(tasks.create_task(self._forward()))
            await stop.wait()
            logs.close()
            for task in (*following, *self._running.values()):
                task.cancel()

    async def _register(self) -> None:
        labels = {"kubernetes.io/hostname": NAME, "topology.kubernetes.io/zone": "zone-1"}
        node = {"metadata": {"name": NAME, "labels": labels}}
        await self.api.send("POST", "/api/v1/nodes", node)
        resources = {"cpu": "64", "memory": "256Gi", "pods": "250"}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        status = {
            "addresses": [{"type": "InternalIP", "address": NODE}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "conditions": [ready],
            "allocatable": resources,
            "capacity": resources,
        }
        kind = "application/merge-patch+json"
        await self.api.send("PATCH", f"/api/v1/nodes/{NAME}/status", {"status": status}, kind)

    def _on_pod(self, event: str, found: Object) -> None:
        metadata = found["metadata"]
        pod = self._pods.get(metadata["uid"])
        if event == "DELETED":
            if pod is not None and not pod.stopping.is_set():  # deleted by force
                self._running[pod.uid].cancel()
        elif pod is not None:
            pod.object = found
            for container, spec in zip(pod.containers, found["spec"]["containers"], strict=True):
                container.resize(spec.get("resources") or {})
            if "deletionTimestamp" in metadata:
                pod.stopping.set()
        elif found["status"].get("phase", "Pending") == "Pending":
            number = next(self._numbers)
            ip = f"10.244.{number >> 8}.{number & 255}"
            network = PodNetwork(f"test-{os.getpid()}-{number}", f"pod{number}", ip)
            pod = self._pods[metadata["uid"]] = Pod(self, found, network)
            if "deletionTimestamp" in metadata:
                pod.stopping.set()
            self._running[pod.uid] = self._tasks.create_task(self._run(pod))

    async def _run(self, pod: Pod) -> None:
        try:
            await pod.run()
        except Exception as error:  # a pod that fails must not end the others
            log(pod.name, "failed:", repr(error))
        finally:
            del self._pods[pod.uid], self._running[pod.uid]

    def _keep(self, objects: dict[str, Object]) -> Callable[[str, Object], None]:
        def changed(event: str, found: Object) -> None:
            if event == "DELETED":
                objects.pop(found["metadata"]["uid"], None)
            else:
                objects[found["metadata"]["uid"]] = found
            self._routes_changed.set()

        return changed

    async def _forward(self) -> None:
        """Follow Services and EndpointSlices with the rules, at most twice a second."""
        while True:
            await self._routes_changed.wait()
            self._routes_changed.clear()
            slices: dict[str, list[Object]] = {}
            for found in self._slices.values():
                metadata = found["metadata"]
                service = (metadata.get("labels") or {}).get("kubernetes.io/service-name")
                slices.setdefault(f"{metadata['namespace']}/{service}", []).append(found)
            try:
                await load_rules(self._services.values(), slices)
            except RuntimeError as error:
                log(error)
            await asyncio.sleep(0.5)

    async def _serve_logs(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Respond to the API server's request for the log of a container."""
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            target = urlsplit(head.split()[1].decode())
            query = parse_qs(target.query)
            parts = target.path.split("/")
            if parts[1] != "containerLogs":
                writer.write(b"HTTP/1.1 501 Not Implemented\r\nContent-Length: 0\r\n\r\n")
                writer.close()
                return
            path = self.log(parts[2], parts[3], parts[4])
            if query.get("previous") == ["true"]:
                path = path.with_suffix(".previous")
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
            with path.open("rb") as file:
                tail = int(query.get("tailLines", ["-1"])[0])
                writer.write(b"".join(file.readlines()[-tail if tail >= 0 else 0 :]))
                while query.get("follow") == ["true"] and not writer.is_closing():
                    writer.write(file.read())
                    await writer.drain()
                    await asyncio.sleep(0.1)
        writer.close()


if __name__ == "__main__":
    asyncio.run(Node(Path(sys.argv[1])).run())
