"""A network namespace of its own for the soak, and packets that the kernel drops in it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

_PATH: Final = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
#: Set in a process that runs in a namespace of its own.
INSIDE: Final = "SOAK_NAMESPACE"


def command() -> list[str]:
    """Return the words before a command line that give it a namespace; empty if it cannot be."""
    if os.geteuid() != 0 or not shutil.which("unshare", path=_PATH):
        return []
    inside = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    probe = subprocess.run([*inside, "true"], capture_output=True, check=False)
    return inside if probe.returncode == 0 else []


def missing() -> str:
    """Return why packets cannot be dropped here; empty if they can."""
    if not os.environ.get(INSIDE):
        return "no network namespace; it needs root, unshare and ip, and no --host-network"
    if not shutil.which("iptables", path=_PATH):
        return "no iptables: apt-get install iptables"
    probe = subprocess.run(["iptables", "-L", "-n"], capture_output=True, text=True, check=False)
    return probe.stderr.strip()


def drop(ip: str, port: int, *, on: bool) -> None:
    """Begin or end to drop all packets to an address and port."""
    assert Path("/proc/self/ns/net").exists()
    where = ["-d", ip, "-p", "tcp", "--dport", f"{port}", "-j", "DROP"]
    subprocess.run(["iptables", "-I" if on else "-D", "INPUT", *where], check=True)
