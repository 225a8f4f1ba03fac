"""The cluster's ConfigMaps: ``config-network``, the templates of waiting pages, and all together.

Most changes apply at once, changes of encryption after a restart. Knows each ConfigMap by its
reader, and the parts that a change affects as callables. Knative's counterpart: the stores and
watchers of cmd/activator/main.go. They freeze all of ``config-network`` at start, and an unknown
mesh mode silently means auto. Knative has no ConfigMap of pages.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from activator.knative.configmaps.following import (
    ConfigMapError,
    ConfigMapReader,
    Followed,
    Read,
)
from activator.knative.configmaps.observability import ObservabilityConfig
from activator.knative.configmaps.process_log import LoggingConfig
from activator.settings.values import BOOLEAN, Kind
from throttler.model import MeshMode

logger = logging.getLogger(__name__)

NETWORK: Final = "config-network"

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


def _enabled(text: str) -> bool:
    words = {"": False, "disabled": False, "enabled": True}
    if text.lower() not in words:
        raise ValueError(f"unknown word: {text!r}")
    return words[text.lower()]


_MESH_MODE: Final = Kind(lambda text: MeshMode(text.lower()), "auto, enabled or disabled", "MODE")
_ENABLED: Final = Kind(_enabled, "enabled or disabled", "WORD")


def read_network(
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


PAGES: Final = "activator-pages"

T = TypeVar("T")


def pages_reader(parse: Callable[[str], T]) -> Read[Mapping[str, T]]:
    """Return a function that reads all templates.

    A template that cannot be used keeps its last good version. Without one it does not exist, so
    its services have the default page.

    Arguments:
        parse: returns the template of a text; raises ValueError for an unusable text.
    """

    kind: Kind[T | None] = Kind(parse, "", "TEMPLATE")

    def read(reader: ConfigMapReader, last_good: Mapping[str, T]) -> Mapping[str, T]:
        found: dict[str, T] = {}
        for key in reader:
            if key.startswith("_"):
                continue
            before = last_good.get(key)
            stays = "the default page" if before is None else "its last good version"
            template = reader.settle(
                reader.read(key, kind, None), before, stays=f"{stays} stays in force"
            )
            if template is not None:
                found[key] = template
        return found

    return read


class ClusterConfig:
    """The ConfigMaps of an activator, and the values in force.

    Arguments:
        logging: ``config-logging``, by the name that the operator has chosen.
        observability: ``config-observability``, in the same way.
        network: applies a changed ``config-network``. It is not called for the defaults.
        more: ConfigMaps of the activator alone, which a cluster need not have.

    Attributes:
        readers: the function that takes the data of a ConfigMap, by its name.
        network: the values of ``config-network``. Encryption does not change after ``freeze``.
    """

    def __init__(
        self,
        logging: Followed[LoggingConfig],
        observability: Followed[ObservabilityConfig],
        network: Callable[[NetworkConfig], None],
        more: Iterable[Followed[Any]] = (),
    ) -> None:
        self.network = NetworkConfig()
        self._apply_network = network
        self._frozen = False
        self._network = Followed(NETWORK, self._read_network, NetworkConfig(), self._set_network)
        self._observability = observability
        self._of_knative = (self._network, logging, observability)
        self._all: tuple[Followed[Any], ...] = (*self._of_knative, *more)
        self.readers = {followed.name: followed.update for followed in self._all}

    @property
    def observability(self) -> ObservabilityConfig:
        """The values in force of the observability ConfigMap."""
        return self._observability.value

    def error_counts(self) -> Mapping[str, int]:
        """Return the present number of unusable keys by ConfigMap."""
        return {each.name: len(each.problems) for each in self._all}

    def freeze(self, *, required: bool) -> None:
        """Fix the encryption of traffic. Call it once, after the first read of all ConfigMaps.

        Arguments:
            required: whether the ConfigMaps must exist, as in a cluster with Knative.

        Raises:
            ConfigMapError: the activator cannot know whether to encrypt traffic. It must not start,
                since it might send plaintext that the operator wants encrypted.
        """
        wrong = self._network.problems
        if tls := {key: wrong[key] for key in TLS_KEYS if key in wrong}:
            raise ConfigMapError(tls)
        if required and not self._network.seen:
            raise ConfigMapError({NETWORK: "there is no such ConfigMap"})
        for followed in self._of_knative:
            if required and not followed.seen:
                logger.warning("there is no ConfigMap %s: its defaults are in force", followed.name)
        self._frozen = True

    def _read_network(self, reader: ConfigMapReader, last_good: NetworkConfig) -> NetworkConfig:
        return read_network(reader, last_good, started=self._frozen)

    def _set_network(self, config: NetworkConfig) -> None:
        if self._frozen and config.internal_tls is not self.network.internal_tls:
            logger.warning(
                "ConfigMap %s, key %s: traffic %s until this process restarts",
                NETWORK,
                INTERNAL_TLS,
                "stays encrypted" if self.network.internal_tls else "stays plaintext",
            )
            config = replace(config, internal_tls=self.network.internal_tls)
        before, self.network = self.network, config
        reach = config.mesh_mode, config.pod_addressability
        if reach != (before.mesh_mode, before.pod_addressability):
            logger.info(
                "ConfigMap %s: mesh mode %s, pods of a mesh addressable: %s",
                NETWORK,
                config.mesh_mode.value,
                "yes" if config.pod_addressability else "no",
            )
        self._apply_network(config)
