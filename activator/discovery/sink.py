"""What discovery tells the rest of the program: the few calls that objects of all kinds become.

It must not know which objects say so, nor who listens; that is the driver.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from throttler.model import AppProtocol, Dests, Revision, RevisionID


class Sink(Protocol):
    """What is told about changes. Every call replaces what was said before about the same thing.

    Dests may come before their revision and outlive it; the sink joins the two.
    """

    def set_revision(self, revision: Revision) -> None:
        """The revision is new or has changed; another uid means another revision."""

    def delete_revision(self, revision_id: RevisionID) -> None:
        """The revision is gone."""

    def set_dests(self, revision_id: RevisionID, dests: Mapping[AppProtocol, Dests]) -> None:
        """These are all pods of the revision, for every protocol."""

    def set_activators(
        self, revision_id: RevisionID, addresses: Mapping[AppProtocol, frozenset[str]]
    ) -> None:
        """These are all IPs behind the revision's public name, for every protocol."""

    def set_service(self, revision_id: RevisionID, addresses: Mapping[AppProtocol, str]) -> None:
        """This is the revision's private Service, ``ip:port``; empty if it cannot be used."""

    def set_config_map(self, name: str, data: Mapping[str, str]) -> None:
        """The ConfigMap has this content; none if it is gone."""

    def set_secret(self, name: str, data: Mapping[str, bytes]) -> None:
        """The Secret has this content, decoded; none if it is gone."""

    def set_trust_bundles(self, pems: tuple[str, ...]) -> None:
        """These are all certificates to trust, PEM, of all ConfigMaps that are trust bundles."""
