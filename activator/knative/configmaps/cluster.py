"""Applies the cluster's ConfigMaps: most changes at once, changes of encryption after a restart.

Knows each ConfigMap by its reader, and the parts that a change affects as callables. Knative's
counterpart: the stores and watchers of cmd/activator/main.go. They freeze all of ``config-network``
at start.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from activator.knative.configmaps import network, observability, process_log
from activator.knative.configmaps.following import ConfigMapError, ConfigMapReader, Followed
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
    """Functions that apply a changed ConfigMap. None is called for the defaults."""

    network: Callable[[NetworkConfig], None]
    logging: Callable[[LoggingConfig], None]
    observability: Callable[[ObservabilityConfig], None]


class ClusterConfig:
    """The ConfigMaps of an activator, and the values in force.

    Arguments:
        names: names of the ConfigMaps.
        listeners: apply changes.
        check_template: raises ``ValueError`` for an unusable template of the request log.
        log_level: lowest severity in the log if no ConfigMap has one.
        more: ConfigMaps of the activator alone, which a cluster need not have.

    Attributes:
        readers: the function that takes the data of a ConfigMap, by its name.
        network: the values of ``config-network``. Encryption does not change after ``freeze``.
    """

    def __init__(
        self,
        names: Names,
        listeners: Listeners,
        check_template: CheckTemplate,
        log_level: str = "info",
        more: Iterable[Followed[Any]] = (),
    ) -> None:
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
        self._of_knative = (self._network, self._logging, self._observability)
        self._all: tuple[Followed[Any], ...] = (*self._of_knative, *more)
        self.readers = {followed.name: followed.update for followed in self._all}

    @property
    def observability(self) -> ObservabilityConfig:
        """The values in force of the observability ConfigMap."""
        return self._observability.value

    def problems(self) -> Mapping[str, Mapping[str, str]]:
        """Return the present problems by ConfigMap and key."""
        return {each.name: each.problems for each in self._all if each.problems}

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
        if tls := {key: wrong[key] for key in network.TLS_KEYS if key in wrong}:
            raise ConfigMapError(tls)
        if required and not self._network.seen:
            raise ConfigMapError({network.NAME: "there is no such ConfigMap"})
        for followed in self._of_knative:
            if required and not followed.seen:
                logger.warning("there is no ConfigMap %s: its defaults are in force", followed.name)
        self._frozen = True

    def _read_network(self, reader: ConfigMapReader, last_good: NetworkConfig) -> NetworkConfig:
        return network.read(reader, last_good, started=self._frozen)

    def _set_network(self, config: NetworkConfig) -> None:
        if self._frozen and config.internal_tls is not self.network.internal_tls:
            logger.warning(
                "ConfigMap %s, key %s: traffic %s until this process restarts",
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
