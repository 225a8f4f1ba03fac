"""Declares the receivers of objects: one for revisions and pods, one for ConfigMaps and Secrets.

Must not know the objects behind a call, nor the effects. The driver is the ``Sink``,
``activator.knative.system_objects`` is the ``SystemSink``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from activator.plain.state import ServiceSink
from throttler.model import AppProtocol, RevisionID


class Sink(ServiceSink, Protocol):
    """Takes revisions and Services with their pods.

    Each call replaces the previous one for the same revision. The endpoints of a revision may
    arrive before it, and stay after it; the sink joins the two.
    """

    def set_service(self, revision_id: RevisionID, addresses: Mapping[AppProtocol, str]) -> None:
        """Replace the addresses, ``ip:port``, of the private Service; empty if it has none."""


class SystemSink(Protocol):
    """Takes the configuration of the activator itself. Each call replaces the previous one."""

    def set_config_map(self, name: str, data: Mapping[str, str]) -> None:
        """Replace the data of a ConfigMap; empty if it is deleted."""

    def set_secret(self, name: str, data: Mapping[str, bytes]) -> None:
        """Replace the decoded data of a Secret; empty if it is deleted."""

    def set_trust_bundles(self, pems: tuple[str, ...]) -> None:
        """Replace all certificates to trust: the PEM texts of all trust bundles."""
