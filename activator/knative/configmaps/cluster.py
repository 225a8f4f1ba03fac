"""What the cluster's ConfigMaps say, joined with what follows from it while the process runs.

Decides what may change while requests run and what waits for a restart. Knows the ConfigMaps by
their readers, and those who hear of changes as plain callables. Knative's counterpart: the stores
and watchers of cmd/activator/main.go, which freeze all of ``config-network`` at start.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from activator.knative.configmaps import network, observability, process_log
from activator.knative.configmaps.following import ConfigMapError, Followed, Reader
from activator.knative.configmaps.network import NetworkConfig
from activator.knative.configmaps.observability import CheckTemplate, ObservabilityConfig
from activator.knative.configmaps.process_log import LoggingConfig

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Names:
    """Names of the ConfigMaps that an operator may choose."""

    logging: str
    observability: str


@dataclass(frozen=True, slots=True)
class Listeners:
    """Who is told of changes; nothing is told of defaults, which everything begins with."""

    network: Callable[[NetworkConfig], None]
    logging: Callable[[LoggingConfig], None]
    observability: Callable[[ObservabilityConfig], None]


class ClusterConfig:
    """The ConfigMaps that an activator goes by.

    Attributes:
        listeners: who takes the data of a ConfigMap, by its name.
        network: what is in force of ``config-network``; whether traffic is encrypted stays what
            it was when ``freeze`` was called.
    """

    def __init__(
        self,
        names: Names,
        listeners: Listeners,
        check_template: CheckTemplate,
        log_level: str = "info",
    ) -> None:
        """Args: the names; who is told; what refuses a request log's template that is wrong; the
        least severity that is logged where no ConfigMap says one."""
        self.network = NetworkConfig()
        self._listeners = listeners
        self._frozen = False
        self._network = Followed(
            network.NAME, self._read_network, NetworkConfig(), self._set_network
        )
        self._logging = Followed(
            names.logging, process_log.reader_of(log_level), LoggingConfig(), listeners.logging
        )
        self._observability = Followed(
            names.observability,
            observability.reader_of(check_template),
            ObservabilityConfig(),
            listeners.observability,
        )
        self._all = (self._network, self._logging, self._observability)
        self.listeners = {followed.name: followed.update for followed in self._all}

    @property
    def observability(self) -> ObservabilityConfig:
        """What is in force of the observability ConfigMap."""
        return self._observability.value

    def problems(self) -> Mapping[str, Mapping[str, str]]:
        """Return what is wrong at present, by ConfigMap and key."""
        return {each.name: each.problems for each in self._all if each.problems}

    def error_counts(self) -> Mapping[str, int]:
        """Return how many keys cannot be used at present, by ConfigMap."""
        return {each.name: len(each.problems) for each in self._all}

    def freeze(self, *, required: bool) -> None:
        """Decide what is decided once, after all that exists has been read.

        Arguments:
            required: whether the ConfigMaps have to exist, as in a cluster of Knative's.

        Raises:
            ConfigMapError: it cannot be known whether traffic is to be encrypted; going on would
                send it in plaintext, maybe against somebody's will.
        """
        wrong = self._network.problems
        if tls := {key: wrong[key] for key in network.TLS_KEYS if key in wrong}:
            raise ConfigMapError(tls)
        if required and not self._network.seen:
            raise ConfigMapError({network.NAME: "there is no such ConfigMap"})
        for followed in self._all:
            if required and not followed.seen:
                logger.warning("there is no ConfigMap %s: its defaults are in force", followed.name)
        self._frozen = True

    def _read_network(self, reader: Reader, last_good: NetworkConfig) -> NetworkConfig:
        return network.read(reader, last_good, started=self._frozen)

    def _set_network(self, config: NetworkConfig) -> None:
        if self._frozen and config.internal_tls is not self.network.internal_tls:
            logger.warning(
                "ConfigMap %s, key %s: traffic %s until this process is started anew",
                network.NAME,
                network.INTERNAL_TLS,
                "stays encrypted" if self.network.internal_tls else "stays plaintext",
            )
            config = replace(config, internal_tls=self.network.internal_tls)
        before, self.network = self.network, config
        reach = config.mesh_mode, config.pod_addressability
        if reach != (before.mesh_mode, before.pod_addressability):
            logger.info(
                "ConfigMap %s: mesh mode %s, pods of a mesh addressable: %s",
                network.NAME,
                config.mesh_mode.value,
                "yes" if config.pod_addressability else "no",
            )
        self._listeners.network(config)
