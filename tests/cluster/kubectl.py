"""``kubectl exec`` and ``kubectl port-forward`` of the cluster, whose kubelet has no streams.

``python -m tests.cluster.kubectl KUBECTL FOLDER ARGUMENT…`` finds the pod by the real kubectl. It
runs the command in the pod's namespaces, as the pod's user and with its environment.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, NoReturn

_END_WITH_PARENT: Final = 1  # PR_SET_PDEATHSIG of linux/prctl.h


class Kubectl:
    """The real program, with the namespace of the command line."""

    def __init__(self, program: str, namespace: str) -> None:
        self._program = program
        self._namespace = namespace

    def get(self, *what: str) -> Any:
        """Return an object; end the process with kubectl's error if there is none."""
        command = [self._program, "--namespace", self._namespace, "get", *what, "--output=json"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            sys.exit(done.returncode)
        return json.loads(done.stdout)

    def pod(self, reference: str) -> Any:
        """Return the pod of ``NAME``, ``pod/NAME``, ``deployment/NAME`` or ``service/NAME``."""
        kind, _, name = reference.rpartition("/")
        if kind in ("", "pod", "pods", "po"):
            return self.get("pod", name)
        selector = self.get(kind, name)["spec"]["selector"]
        labels = ",".join(f"{k}={v}" for k, v in selector.get("matchLabels", selector).items())
        pods = self.get("pods", "--selector", labels)["items"]
        for pod in pods:
            running = pod["status"].get("phase") == "Running"
            if running and "deletionTimestamp" not in pod["metadata"]:
                return pod
        sys.exit(f"error: no running pod of {reference}")


def execute(kubectl: Kubectl, folder: Path, reference: str, name: str, command: list[str]) -> None:
    """Replace this process by a command in a container."""
    pod = kubectl.pod(reference)
    metadata, spec = pod["metadata"], pod["spec"]
    default = (metadata.get("annotations") or {}).get("kubectl.kubernetes.io/default-container")
    name = name or default or spec["containers"][0]["name"]
    file = folder / "pods" / f"{metadata['namespace']}_{metadata['name']}.json"
    pids = json.loads(file.read_text())
    if not pids.get(name):
        sys.exit(f"error: container {name} of pod {metadata['name']} does not run")
    process = Path("/proc", str(pids[name]))
    variables = (process / "environ").read_text().split("\0")
    environment = dict(line.split("=", 1) for line in variables if "=" in line)
    uid = process.stat().st_uid
    user = [f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--no-new-privs"]
    enter = ["nsenter", f"--target={pids[name]}", "--net", "--mount", "setpriv", *user]
    os.execvpe(enter[0], [*enter, *command], environment)


def port_number(kubectl: Kubectl, reference: str, pod: Any, number: str) -> int:
    """Return the port of a pod behind a port of a Service, or the port itself."""
    kind, _, name = reference.rpartition("/")
    if kind not in ("service", "svc"):
        return int(number)
    ports = kubectl.get("service", name)["spec"]["ports"]
    target = next(
        port["targetPort"] for port in ports if number in (str(port["port"]), port["name"])
    )
    named = {
        port.get("name"): port["containerPort"]
        for container in pod["spec"]["containers"]
        for port in container.get("ports") or ()
    }
    return int(named.get(target, target))


async def forward(process: int, number: int, local: int) -> None:
    """Forward connections from loopback to a pod, until this process or its parent ends."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
            writer.write_eof()
        except OSError:
            writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            remote = await asyncio.open_connection("127.0.0.1", number)
        except OSError as error:
            print(f"error: cannot connect to port {number}: {error}", file=sys.stderr)
        else:
            await asyncio.gather(copy(reader, remote[1]), copy(remote[0], writer))
            remote[1].close()
        writer.close()

    listening = socket.create_server(("127.0.0.1", local))
    # As kubelet does: to the loopback address of the pod, where the admin port listens.
    network = os.open(f"/proc/{process}/ns/net", os.O_RDONLY)
    libc = ctypes.CDLL(None)
    libc.setns(network, 0)
    # A shell that ends leaves its jobs, and the cluster ends with the shell.
    libc.prctl(_END_WITH_PARENT, signal.SIGTERM)
    server = await asyncio.start_server(serve, sock=listening)
    print(f"Forwarding from 127.0.0.1:{local} -> {number}", flush=True)
    await server.serve_forever()


def main(arguments: list[str]) -> NoReturn:
    """Run the command line."""
    program, folder, *rest = arguments
    own, command = rest, list[str]()
    if "--" in rest:
        own, command = rest[: rest.index("--")], rest[rest.index("--") + 1 :]
    parser = argparse.ArgumentParser(prog="kubectl")
    parser.add_argument("-n", "--namespace", default="default")
    parser.add_argument("-c", "--container", default="")
    parser.add_argument("-i", "--stdin", action="store_true")
    parser.add_argument("-t", "--tty", action="store_true")
    parser.add_argument("verb", choices=["exec", "port-forward"])
    parser.add_argument("reference")
    parser.add_argument("ports", nargs="*")
    given = parser.parse_intermixed_args(own)
    kubectl = Kubectl(program, given.namespace)
    if given.verb == "exec":
        execute(kubectl, Path(folder), given.reference, given.container, command or given.ports)
    pod = kubectl.pod(given.reference)
    local, _, remote = given.ports[0].partition(":")
    number = port_number(kubectl, given.reference, pod, remote or local)
    metadata = pod["metadata"]
    file = Path(folder, "pods", f"{metadata['namespace']}_{metadata['name']}.json")
    process = next(iter(json.loads(file.read_text()).values()))
    asyncio.run(forward(process, number, int(local)))
    sys.exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
