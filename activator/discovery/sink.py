"""The calls that objects of all kinds become: of revisions and their pods, and of the system.

Must not know which objects cause a call, nor who takes it. The driver is the ``Sink``,
``activator.knative.system_objects`` is the ``SystemSink``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from throttler.model import AppProtocol, ListedEndpoints, Revision, RevisionID


class Sink(Protocol):
    """Takes revisions and their pods. Each call replaces the one before for the same revision.

    Dests may come before their revision and outlive it; the sink joins the two.
    """

    def set_revision(self, revision: Revision) -> None:
        """The revision is new or has changed; another uid means another revision."""

    def delete_revision(self, revision_id: RevisionID) -> None:
        """The revision is gone."""

    def set_endpoints(
        self, revision_id: RevisionID, endpoints: Mapping[AppProtocol, ListedEndpoints]
    ) -> None:
        """These are all pods of the revision, for every protocol."""

    def set_activators(
        self, revision_id: RevisionID, addresses: Mapping[AppProtocol, frozenset[str]]
    ) -> None:
        """These are all IPs behind the revision's public name, for every protocol."""

    def set_service(self, revision_id: RevisionID, addresses: Mapping[AppProtocol, str]) -> None:
        """This is the revision's private Service, ``ip:port``; empty if it cannot be used."""


class SystemSink(Protocol):
    """Takes what configures the activator itself. Each call replaces the one before."""

    def set_config_map(self, name: str, data: Mapping[str, str]) -> None:
        """The ConfigMap has this content; none if it is gone."""

    def set_secret(self, name: str, data: Mapping[str, bytes]) -> None:
        """The Secret has this content, decoded; none if it is gone."""

    def set_trust_bundles(self, pems: tuple[str, ...]) -> None:
        """These are all certificates to trust, PEM, of all ConfigMaps that are trust bundles."""
