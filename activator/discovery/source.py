"""A source of objects, and the receiver of its objects.

A source reads revisions and their pods, and follows their changes. The rest of the program knows
this interface alone. ``sources`` has the table of all sources. Most sources pass raw objects to an
inventory; a source may also call the sink itself. The driver is the ``Sink``: it must not know the
objects behind a call. ``activator.knative.system_objects`` takes ConfigMaps and Secrets.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from activator.records.source_status import SourceStatus
from throttler.model import AppProtocol, ListedEndpoints, Revision, RevisionID, ServiceRoute


class Sink(Protocol):
    """Takes revisions and Services with their pods.

    Each call replaces the previous one for the same revision. The endpoints of a revision may
    arrive before it, and stay after it; the sink joins the two. A protocol, since a contributed
    source is tested without a driver.
    """

    def set_revision(self, revision: Revision) -> None:
        """Add or replace a revision; another uid means another revision."""

    def delete_revision(self, revision_id: RevisionID) -> None:
        """Remove a deleted revision; of a route object also its pods and its rules, a little later.

        Until then, a route object that is made again loses no request.
        """

    def set_endpoints(
        self, revision_id: RevisionID, endpoints: Mapping[AppProtocol, ListedEndpoints]
    ) -> None:
        """Replace all pods of a revision, by protocol."""

    def set_activators(
        self, revision_id: RevisionID, addresses: Mapping[AppProtocol, Collection[str]]
    ) -> None:
        """Replace the IPs of the activators that share the pods of a revision, by protocol.

        A mapping also has the zone of each.
        """

    def set_route(self, revision_id: RevisionID, route: ServiceRoute) -> None:
        """Replace the rules and the port of a Service or a route object; ``Route()`` for none.

        May come before the Service. The caller also resets it when the Service is deleted.
        """

    def set_service(self, revision_id: RevisionID, addresses: Mapping[AppProtocol, str]) -> None:
        """Replace the addresses, ``ip:port``, of the private Service; empty if it has none."""


class SourceError(Exception):
    """A source is unusable; the text has its name, the reason and a remedy."""


class Source:
    """Reads objects from one place.

    The caller calls ``start``, runs ``run`` as a task, and awaits ``wait_synced`` before it
    accepts traffic. A failing source never removes objects.
    """

    async def start(self) -> None:
        """Check that the source is usable. A source may read all objects here.

        Raises:
            SourceError: the source is unusable.
        """
        raise NotImplementedError

    async def run(self) -> None:
        """Follow all changes until cancelled, also after failures."""
        raise NotImplementedError

    async def wait_synced(self) -> None:
        """Return when every object has been read once; ``run`` must be in progress.

        By default ``start`` has read all objects.
        """

    async def follow_secret(self, name: str) -> None:
        """Follow one Secret of the system namespace, and return after its first read.

        Also returns if there is no such Secret. By default the source reads all Secrets, or none.
        """

    def hurry(self) -> None:
        """Shorten all pauses after failures, since a request has begun to wait."""

    def status(self, now: float) -> SourceStatus:
        """Return the state of the source.

        Arguments:
            now: seconds, on the loop's clock.
        """
        raise NotImplementedError

    async def close(self) -> None:
        """Close the connections that ``start`` opened, also if ``run`` was never called."""
