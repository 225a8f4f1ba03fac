"""Prove the image without a container engine: ``make image-proof``, as root, with debootstrap.

The script executes the Dockerfile in a Debian root (``build.py``). Then it starts the entry point
like a container: as the image's user without capabilities, and as process 1. The root file system
is read-only, the network is its own, and the environment is the Deployment's. Then the script
sends the requests of kubelet, ingress and clients, and ends the process.

It does not cover the base image itself, whose Python may differ from Debian's, nor the seccomp
profile of a container runtime.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import os
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Any

import trustme
import websockets

from activator.autoscaler.concurrency import Stat
from activator.autoscaler.wire import encode
from activator.lab.objects import PodAddress, private_endpoints, revision, write_object
from activator.lab.pod import PodOptions
from activator.lab.programs import fetch
from tests.activator.discovery.fake_api_server import FakeApiServer
from tests.activator.scale.world import NAMESPACE, cluster
from tests.e2e.world import Pod, at
from tests.image.build import base, build
from tests.image.deployment import environment as environment_of
from tests.image.dockerfile import ROOT, Stage, read
from tests.manifests.knative import config_map, routing_certificate
from throttler.model import RevisionID

CACHE = Path.home() / ".cache" / "activator-image-proof"
POD = "127.0.0.11"
POD_PORT = 9012  # the activator takes 8012 on every address
AUTOSCALER_PORT = 9080
STAT_PORT = 8080
KUBELET = {"User-Agent": "kube-probe/1.34"}
CLIENT = {"Host": "app.default.svc.cluster.local"}
PATIENCE = 30.0

#: Prints each path that this user could write to, apart from devices and the kernel's own files.
WRITABLE = """
import os
for folder, folders, files in os.walk("/"):
    if folder == "/":
        folders[:] = [name for name in folders if name not in ("proc", "dev")]
    for path in [folder, *(os.path.join(folder, name) for name in files)]:
        if not os.path.islink(path) and os.access(path, os.W_OK):
            print(path)
"""


def say(text: str) -> None:
    print(text, flush=True)


def check(holds: bool, what: str) -> None:
    say(f"  {'ok' if holds else 'NOT OK'}: {what}")
    if not holds:
        raise SystemExit(1)


# -- outside: build ----------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--base", type=Path, default=CACHE / "bookworm", help="Debian root to use")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        _prove(options.inside)
        return
    if os.geteuid():
        raise SystemExit("chroot and mount take root: sudo make image-proof")
    with tempfile.TemporaryDirectory(prefix="activator-image-") as folder:
        _build_and_prove(options.base, Path(folder))


def _build_and_prove(base_root: Path, folder: Path) -> None:
    say(f"Debian root: {base_root}")
    base(base_root)
    stages = read((ROOT / "Dockerfile").read_text())
    started = monotonic()
    root = build(stages, base_root, folder)
    say(f"Dockerfile followed in {monotonic() - started:.0f} s")
    say(f"  {_size(root / 'opt'):.1f} MB upon the base image")
    for tool in ("gcc", "cc", "g++", "make"):
        check(not (root / "usr/bin" / tool).exists(), f"no {tool}")
    # Mounts, processes and network of its own: nothing of it is left behind, whatever happens.
    own = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--net", "--mount-proc"]
    inside = [sys.executable, "-m", "tests.image.prove", "--inside", str(root)]
    raise SystemExit(subprocess.run([*own, *inside], cwd=ROOT, check=False).returncode)


def _size(folder: Path) -> float:
    files = (path.lstat() for path in folder.rglob("*"))
    return sum(status.st_size for status in files) / 1e6


# -- inside: run -------------------------------------------------------------------------------


def _prove(root: Path) -> None:
    _loopback_up()
    with tempfile.TemporaryDirectory() as given:
        objects = Path(given)
        objects.chmod(0o755)
        stage = read((ROOT / "Dockerfile").read_text())[-1]
        _mount(root, objects)
        asyncio.run(_run(Container(root, stage), objects))
    say("proved")


async def _run(container: Container, objects: Path) -> None:
    await _is_compiled(container)
    await _nothing_can_be_written(container)
    await _serves_a_folder(container, objects)
    await _serves_a_cluster(container, objects)
    await _serves_tls(container, objects)
    await _scales(container, objects)


def _loopback_up() -> None:
    up = struct.pack("16sh22x", b"lo", 0x49)  # IFF_UP | IFF_LOOPBACK | IFF_RUNNING
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, 0x8914, up)  # SIOCSIFFLAGS


def _mount(root: Path, objects: Path) -> None:
    """Mount the root read-only, with /proc as in a container, and the test's files under /mnt."""
    for command in (
        ["mount", "--bind", root, root],
        ["mount", "--options", "remount,ro,bind", root],
        ["mount", "--types", "proc", "--options", "nosuid,nodev,noexec", "proc", root / "proc"],
        ["mount", "--bind", objects, root / "mnt"],
        ["mount", "--options", "remount,ro,bind", root / "mnt"],
    ):
        subprocess.run([str(word) for word in command], check=True)


class Container:
    """A container as a runtime makes it: entry point, user, environment and root."""

    def __init__(self, root: Path, stage: Stage) -> None:
        self._root = root
        self.stage = stage

    def start(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None, **given: Any
    ) -> Any:
        """Start a command as process 1 of the container."""
        user, _, group = self.stage.user.partition(":")
        settings = {**self.stage.environment, **(environment or {})}
        return asyncio.create_subprocess_exec(
            *("unshare", "--pid", "--fork", "--kill-child", "chroot", str(self._root)),
            *("setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups"),
            *("--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", "--"),
            *("env", "--ignore-environment", f"--chdir={self.stage.folder}"),
            *(f"{name}={value}" for name, value in settings.items()),
            *command,
            **given,
        )

    @asynccontextmanager
    async def activator(
        self, arguments: Sequence[str], environment: Mapping[str, str]
    ) -> AsyncIterator[Activator]:
        command = [*self.stage.entrypoint, *arguments]
        activator = Activator(await self.start(command, environment, stderr=PIPE))
        try:
            yield activator
        except BaseException:
            print(*activator.log[-40:], sep="\n")
            raise
        finally:
            with suppress(ProcessLookupError):
                activator.process.kill()
            await activator.process.wait()


class Activator:
    """The running entry point; ``log`` are its log lines."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.log: list[str] = []
        self._reading = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.log.append(line.decode().rstrip())

    @property
    def pid(self) -> int:
        """Return the id of the container's process 1, outside of the container."""
        unshare = self.process.pid
        children = Path(f"/proc/{unshare}/task/{unshare}/children").read_text().split()
        return int(children[0])

    async def answers(self, port: int, path: str, headers: Mapping[str, str], status: int) -> None:
        """Wait until a port sends that response."""
        deadline = monotonic() + PATIENCE
        while True:
            assert self.process.returncode is None, f"ended with {self.process.returncode}"
            assert monotonic() < deadline, f"no {status} from port {port} in {PATIENCE:g} s"
            with suppress(OSError):
                if (await fetch("127.0.0.1", port, path, headers=headers)).status == status:
                    return
            await at(monotonic() + 0.01)

    def end(self) -> None:
        """Send SIGTERM, as kubelet does."""
        os.kill(self.pid, signal.SIGTERM)

    def resident(self) -> float:
        """Return the process's resident memory in MiB."""
        rollup = Path(f"/proc/{self.pid}/smaps_rollup").read_text()
        return int(rollup.partition("Rss:")[2].split()[0]) / 1024

    def privileges(self) -> dict[str, str]:
        status = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return {key: value.strip() for key, _, value in (line.partition(":") for line in status)}


async def _is_compiled(container: Container) -> None:
    process = await container.start([*container.stage.entrypoint, "version"], stdout=PIPE)
    printed = (await process.communicate())[0].decode().strip()
    check(", compiled build, " in printed, printed)


async def _nothing_can_be_written(container: Container) -> None:
    say("read-only:")
    python = "/opt/activator/bin/python3"
    process = await container.start([python, "-c", WRITABLE], stdout=PIPE)
    found = (await process.communicate())[0].decode().split("\n")
    allowed = [""]
    check(process.returncode == 0 and found == allowed, f"no path is writable {found[:5]}")
    attempt = "import tempfile; tempfile.TemporaryFile()"
    process = await container.start([python, "-c", attempt], stderr=PIPE)
    await process.communicate()
    check(process.returncode != 0, "Python finds no place for a temporary file")


@asynccontextmanager
async def _pod() -> AsyncIterator[PodAddress]:
    pod = Pod(PodOptions("app-1", POD, POD_PORT, 0))
    await pod.start()
    try:
        yield PodAddress(POD, POD_PORT, "uid-of-app-1", "app-1", ready=True)
    finally:
        await pod.end(kill=True)


async def _serves_a_folder(container: Container, objects: Path) -> None:
    say("activator local, on a folder that is mounted:")
    write_object(objects, revision("app", uid="uid-of-app"))
    async with _pod() as pod:
        write_object(objects, private_endpoints("app", [pod]))
        started = monotonic()
        async with container.activator(["local", "--manifests", "/mnt"], {}) as activator:
            await activator.answers(8012, "/", CLIENT, 200)
            check(True, f"first response of a pod {monotonic() - started:.2f} s after the start")
            await _ends_in_order(activator)


async def _serves_a_cluster(container: Container, objects: Path) -> None:
    say("activator run, with the Deployment's environment and a scripted API server:")
    async with FakeApiServer() as api, _pod() as pod:
        api.put(config_map("config-network", {}))
        for number in range(1000):
            api.put(revision(f"idle-{number}"))
        api.put(revision("app", uid="uid-of-app"))
        api.put(private_endpoints("app", [pod]))
        api.kubeconfig(objects)
        environment = environment_of("knative", "activator") | {
            "KUBECONFIG": "/mnt/kubeconfig",
            "ACTIVATOR_AUTOSCALER_URL": f"ws://127.0.0.1:{AUTOSCALER_PORT}",
            "ACTIVATOR_LAME_DUCK": "1s",
        }
        started = monotonic()
        async with container.activator(container.stage.command, environment) as activator:
            await activator.answers(9090, "/healthz", KUBELET, 200)
            check(True, f"startup and liveness probe pass after {monotonic() - started:.2f} s")
            await activator.answers(8012, "/", KUBELET, 500)
            check(True, "readiness probe fails without an autoscaler")
            await _serves_with_an_autoscaler(container, activator, started)


async def _serves_with_an_autoscaler(
    container: Container, activator: Activator, started: float
) -> None:
    async def take(connection: websockets.ServerConnection) -> None:
        await connection.wait_closed()

    async with websockets.serve(take, "127.0.0.1", AUTOSCALER_PORT):
        await activator.answers(8012, "/", KUBELET, 200)
        check(
            True, f"readiness probe passes with one, {monotonic() - started:.2f} s after the start"
        )
        await activator.answers(8012, "/", CLIENT, 200)
        check(True, "a request reaches the pod")
        await activator.answers(9090, "/metrics", {}, 200)
        check(True, "Prometheus finds the metrics")
        process = await container.start([*container.stage.entrypoint, "status"], stdout=PIPE)
        told = (await process.communicate())[0].decode()
        check("default/app" in told, "`activator status` in the container shows the revision")
        privileges = activator.privileges()
        check(privileges["NSpid"].split()[-1] == "1", "process 1 of the container")
        check(set(privileges["Uid"].split()) == {"65532"}, "user 65532")
        check(int(privileges["CapEff"], 16) == int(privileges["CapBnd"], 16) == 0, "no capability")
        say(f"  resident memory with 1,001 revisions: {activator.resident():.0f} MiB")
        await _ends_in_order(activator, slow="/sleep?ms=2500")


async def _serves_tls(container: Container, objects: Path) -> None:
    say("the same with internal TLS, whose key must not be written anywhere:")
    authority = trustme.CA()
    trusting = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())
    async with FakeApiServer() as api:
        api.put(config_map("config-network", {"system-internal-tls": "enabled"}))
        api.put(routing_certificate(authority))
        api.kubeconfig(objects)
        environment = environment_of("knative", "activator") | {
            "KUBECONFIG": "/mnt/kubeconfig",
            "ACTIVATOR_LAME_DUCK": "0s",
        }
        async with container.activator(container.stage.command, environment) as activator:
            await activator.answers(9090, "/healthz", KUBELET, 200)
            await activator.answers(8012, "/", KUBELET, 500)
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", 8112, ssl=trusting, server_hostname="data-plane.knative.dev"
            )
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: kube-probe/1\r\n\r\n")
            check((await reader.readline()).startswith(b"HTTP/1.1 500"), "port 8112 responds")
            writer.close()
            activator.end()
            status = await asyncio.wait_for(activator.process.wait(), PATIENCE)
            check(status == 0, f"ends with status {status}")


async def _scales(container: Container, objects: Path) -> None:
    say("activator scale, with its Deployment's environment and a stand-in for Kubernetes:")
    async with cluster(objects) as kube:
        await kube.add()
        pod = {"metadata": {"name": "activator-1", "namespace": NAMESPACE}, "spec": {}}
        await kube.send("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", pod)
        environment = environment_of("services", "activator-scale") | {
            "KUBECONFIG": "/mnt/kubeconfig"
        }
        async with container.activator(["scale"], environment) as scaler:
            await scaler.answers(8081, "/healthz", KUBELET, 200)
            await scaler.answers(8081, "/readyz", {}, 200)
            check(kube.leaders() == ["activator-1"], "it leads, and labels its pod")
            async with websockets.connect(f"ws://127.0.0.1:{STAT_PORT}") as connection:
                await connection.send(encode([Stat(RevisionID("shop", "hello"), 1.0, 1)], "a"))
                deadline = monotonic() + PATIENCE
                while not kube.replicas():
                    assert monotonic() < deadline, "no replica"
                    await at(monotonic() + 0.01)
            check(True, "a report starts a workload")
            await scaler.answers(9090, "/metrics", {}, 200)
            say(f"  resident memory: {scaler.resident():.0f} MiB")
            scaler.end()
            status = await asyncio.wait_for(scaler.process.wait(), PATIENCE)
            check(status == 0, f"ends with status {status}")
            check(kube.holder() == "", "it releases the Lease")


async def _ends_in_order(activator: Activator, slow: str = "/sleep?ms=500") -> None:
    """Check that requests in flight and of the lame duck get responses; the exit status is 0."""
    running = asyncio.ensure_future(fetch("127.0.0.1", 8012, slow, headers=CLIENT))
    await at(monotonic() + 0.2)
    activator.end()
    started = monotonic()
    check((await running).status == 200, "the request in flight at SIGTERM gets its response")
    status = await asyncio.wait_for(activator.process.wait(), PATIENCE)
    check(status == 0, f"ends {monotonic() - started:.2f} s after SIGTERM with status {status}")


if __name__ == "__main__":
    main()
