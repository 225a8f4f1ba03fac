"""Reads the ConfigMap ``config-network``: the way to pods, and whether traffic is encrypted.

Reads only the keys that matter to an activator. Pure: it knows no throttler and no socket.
Knative's counterpart: knative.dev/networking pkg/config, where an unknown mesh mode silently means
auto.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from activator.knative.configmaps.following import ConfigMapReader, strictly
from activator.settings.values import BOOLEAN, Kind
from throttler.model import MeshMode

NAME: Final = "config-network"

MESH_MODE: Final = "mesh-compatibility-mode"
POD_ADDRESSABILITY: Final = "enable-mesh-pod-addressability"
INTERNAL_TLS: Final = "system-internal-tls"
INTERNAL_ENCRYPTION: Final = "internal-encryption"

#: The keys of encryption. With a wrong value the activator does not start: it might send plaintext.
TLS_KEYS: Final = (INTERNAL_TLS, INTERNAL_ENCRYPTION)


@dataclass(frozen=True, slots=True)
class NetworkConfig:
    """The way to pods.

    Attributes:
        mesh_mode: whether requests go to pods' own addresses, to the revision's ClusterIP, or as
            probes show.
        pod_addressability: whether pods in a mesh can be reached by their own addresses.
        internal_tls: whether traffic inside of the cluster is encrypted.
    """

    mesh_mode: MeshMode = MeshMode.AUTO
    pod_addressability: bool = False
    internal_tls: bool = False


def _mesh_mode(text: str) -> MeshMode:
    return MeshMode(text.lower())


def _enabled(text: str) -> bool:
    words = {"": False, "disabled": False, "enabled": True}
    if text.lower() not in words:
        raise ValueError(f"unknown word: {text!r}")
    return words[text.lower()]


_MESH_MODE: Final = Kind(_mesh_mode, "auto, enabled or disabled", "MODE")
_ENABLED: Final = Kind(_enabled, "enabled or disabled", "WORD")


def read(
    reader: ConfigMapReader, last_good: NetworkConfig, *, started: bool = True
) -> NetworkConfig:
    """Read the ConfigMap's keys (activator.knative.configmaps.following.Read).

    Args:
        reader: has the data.
        last_good: the values in force.
        started: whether the encryption of this process is fixed.
    """
    mode = reader.read(MESH_MODE, _MESH_MODE, MeshMode.AUTO)
    mode = reader.settle(mode, last_good.mesh_mode)
    addressable = reader.read(POD_ADDRESSABILITY, BOOLEAN, False)
    addressable = reader.settle(addressable, last_good.pod_addressability)
    # The old key can only turn encryption on, for any value of the new one, as in Knative.
    encrypted = reader.read(INTERNAL_TLS, _ENABLED, False)
    encrypted |= reader.read(INTERNAL_ENCRYPTION, BOOLEAN, False)
    in_force = "enabled" if last_good.internal_tls else "disabled"
    refused = "" if started else "the activator does not start with it"
    encrypted = reader.settle(encrypted, last_good.internal_tls, in_force, refused)
    return NetworkConfig(mode, addressable, encrypted)


def parse(data: Mapping[str, str]) -> NetworkConfig:
    """Read data without unusable keys.

    Arguments:
        data: the ConfigMap's data.

    Raises:
        ConfigMapError: names each unusable key and value, and the accepted values.
    """
    return strictly(read, data, NetworkConfig())
