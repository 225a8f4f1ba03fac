"""The network of the cluster: a namespace for the node, one for each pod, and the Services' rules.

The node's namespace is that of this process and of its children. All addresses are its own, so
clusters of several processes do not meet. It needs root.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import subprocess
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

Object = dict[str, Any]

#: Addresses of the node, of the DNS server, and of pods.
NODE: Final = "10.99.0.1"
DNS: Final = "10.99.0.10"
PODS: Final = "10.244.0.0/16"
SERVICES: Final = "10.96.0.0/16"

_NEW_NETWORK: Final = 0x40000000  # CLONE_NEWNET of linux/sched.h


def enter_own() -> None:
    """Move this thread, and all threads and processes that it starts, to a network of its own.

    Raises:
        OSError: this process may not make namespaces.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_NETWORK):
        number = ctypes.get_errno()
        raise OSError(number, f"no network namespace: {os.strerror(number)}")
    _run("ip link set lo up")
    for address in (NODE, DNS):
        _run(f"ip addr add {address}/32 dev lo")
    # A default route, so that connections to ClusterIPs reach the rules.
    _run("ip link add uplink type veth peer name nowhere")
    _run("ip addr add 10.98.0.1/24 dev uplink")
    _run("ip link set uplink up")
    _run("ip link set nowhere up")
    _run(f"ip route add default dev uplink src {NODE}")
    for name, value in {
        "net/ipv4/ip_forward": "1",
        "net/ipv4/ip_local_port_range": "1024 65000",
    }.items():
        with open(f"/proc/sys/{name}", "w") as file:
            file.write(value)


def _run(command: str) -> None:
    done = subprocess.run(command.split(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{command}: {done.stderr.strip()}")


class PodNetwork(NamedTuple):
    """The namespace of one pod; ``name`` is its name for ``ip netns``."""

    name: str
    device: str
    ip: str

    async def make(self) -> None:
        """Make the namespace, with a route from the node to the address.

        Raises:
            RuntimeError: a command failed.
        """
        await _batch(
            f"ip netns add {self.name}",
            f"ip link add {self.device} type veth peer name eth0 netns {self.name}",
            f"ip link set {self.device} up",
            f"ip route replace {self.ip}/32 dev {self.device}",
            f"sysctl -qw net.ipv4.conf.{self.device}.proxy_arp=1",
            f"ip -n {self.name} link set lo up",
            f"ip -n {self.name} addr add {self.ip}/32 dev eth0",
            f"ip -n {self.name} link set eth0 up",
            f"ip -n {self.name} route add 169.254.1.1 dev eth0 scope link",
            f"ip -n {self.name} route add default via 169.254.1.1",
            f"nsenter --net=/run/netns/{self.name} sysctl -qw"
            " net.ipv4.ip_unprivileged_port_start=0 net.core.somaxconn=4096",
        )

    async def remove(self) -> None:
        """Remove the namespace; its processes must have ended."""
        await _batch(f"ip netns del {self.name}")


async def _batch(*commands: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *("sh", "-ec", "\n".join(commands)), stderr=asyncio.subprocess.PIPE
    )
    _, errors = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"{commands[0]} …: {errors.decode().strip()}")


async def load_rules(services: Iterable[Object], slices: Mapping[str, list[Object]]) -> None:
    """Replace the rules that send connections to Services to their endpoints.

    A connection goes to a random ready endpoint, or else to one that serves while it terminates, as
    with kube-proxy. Without an endpoint it is refused.

    Arguments:
        slices: the EndpointSlices of each Service, by ``namespace/name``.

    Raises:
        RuntimeError: nft refused the rules.
    """
    forwarded, refused = [], []
    for service in services:
        address = service["spec"].get("clusterIP", "None")
        if address == "None" or not address:
            continue
        name = f"{service['metadata']['namespace']}/{service['metadata']['name']}"
        for port in service["spec"].get("ports") or ():
            where = f"ip daddr {address} tcp dport {port['port']}"
            found = _endpoints(slices.get(name, []), port.get("name") or "")
            if found:
                rows = ", ".join(f"{n} : {ip} . {to}" for n, (ip, to) in enumerate(found))
                forwarded.append(f"{where} dnat to numgen random mod {len(found)} map {{ {rows} }}")
            else:
                refused.append(f"{where} reject with tcp reset")
    chains = {
        "services": forwarded,
        "routed": ["type nat hook prerouting priority -100", "jump services"],
        "local": ["type nat hook output priority -100", "jump services"],
        "empty": refused,
        "refused": ["type filter hook forward priority 0", "jump empty"],
        "own": ["type filter hook output priority 0", "jump empty"],
    }
    lines = ["table ip cluster", "delete table ip cluster", "table ip cluster {"]
    for name, rules in chains.items():
        lines += [f"chain {name} {{", *(f"{rule};" for rule in rules), "}"]
    process = await asyncio.create_subprocess_exec(
        *("nft", "-f", "-"), stdin=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    _, errors = await process.communicate("\n".join([*lines, "}", ""]).encode())
    if process.returncode:
        raise RuntimeError(f"nft: {errors.decode()[:500]}")


def _endpoints(slices: list[Object], port: str) -> list[tuple[str, int]]:
    ready, terminating = set(), set()
    for found in slices:
        numbers = [p["port"] for p in found.get("ports") or () if (p.get("name") or "") == port]
        for endpoint in found.get("endpoints") or ():
            conditions = endpoint.get("conditions") or {}
            places = {(ip, number) for ip in endpoint["addresses"] for number in numbers}
            if conditions.get("ready") is not False:
                ready |= places
            elif conditions.get("serving") and conditions.get("terminating"):
                terminating |= places
    return sorted(ready or terminating)
