"""KEDA in the cluster: its programs, and the certificates that they share.

The two programs are optional: they are in the folder of the control plane's, or nothing runs.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest
import trustme

from tests.cluster.cluster import Cluster
from tests.cluster.objects import definition
from tests.cluster.programs import VARIABLE

YAML: Final = "tests/cluster/keda.yaml"
#: The program of each image of keda.yaml.
IMAGES: Final = {"keda": "keda-operator", "keda-metrics-apiserver": "keda-adapter"}
#: What KEDA prints for its conditions, as in its own CustomResourceDefinition.
COLUMNS: Final = {
    name: f'.status.conditions[?(@.type=="{name}")].status' for name in ("Ready", "Active")
}


def program(name: str) -> Path:
    """Return the path of an optional program."""
    return Path(os.environ.get(VARIABLE, ""), name)


def missing(*programs: str) -> str:
    """Return which of the programs are missing, as a sentence; empty for none."""
    found = [name for name in programs if not os.access(program(name), os.X_OK)]
    return f"the folder of {VARIABLE} has no {', '.join(found)}" if found else ""


def needs(*programs: str) -> pytest.MarkDecorator:
    """Return the mark that skips tests unless all these programs are there."""
    reason = missing(*programs)
    return pytest.mark.skipif(bool(reason), reason=reason)


DEFINITIONS: Final = (
    definition("keda.sh", "v1alpha1", "ScaledObject", columns=COLUMNS),
    definition("keda.sh", "v1alpha1", "ScaledJob"),
    definition("keda.sh", "v1alpha1", "TriggerAuthentication"),
    definition("keda.sh", "v1alpha1", "ClusterTriggerAuthentication", scope="Cluster"),
    definition("eventing.keda.sh", "v1alpha1", "CloudEventSource"),
    definition("eventing.keda.sh", "v1alpha1", "ClusterCloudEventSource", scope="Cluster"),
)


async def install(cluster: Cluster, folder: Path) -> None:
    """Install KEDA.

    Arguments:
        folder: an empty one, for its certificates.
    """
    authority = trustme.CA()
    issued = authority.issue_cert("keda-operator.keda.svc.cluster.local", "keda-operator.keda.svc")
    authority.cert_pem.write_to_path(str(folder / "ca.crt"))
    issued.private_key_pem.write_to_path(str(folder / "tls.key"))
    issued.cert_chain_pems[0].write_to_path(str(folder / "tls.crt"))
    for image, name in IMAGES.items():
        # Instead of a volume with a Secret. The adapter connects to the operator with it.
        cluster.image(image, [str(program(name)), f"--cert-dir={folder}"])
    await cluster.apply(*DEFINITIONS)
    await cluster.kubectl("apply", "-f", YAML)
    for name in ("keda-operator", "keda-metrics-apiserver"):
        rollout = ("rollout", "status", f"deployment/{name}", "--timeout=90s")
        await cluster.kubectl("-n", "keda", *rollout)


async def remove(cluster: Cluster) -> None:
    """Remove KEDA. It ends its ScaledObjects itself, so it goes last."""
    await cluster.kubectl("delete", "scaledobjects", "--all", "-A")
    # Other tests serve its group of the API.
    await cluster.kubectl("delete", "-f", YAML)
    # A scaler that starts afterwards must find no KEDA.
    names = (each["metadata"]["name"] for each in DEFINITIONS)
    await cluster.kubectl("delete", "customresourcedefinition", *names)
