"""A source of objects, and the receivers of its objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from activator.plain.state import ServiceSink
from activator.records.source_status import SourceStatus
from throttler.model import AppProtocol, RevisionID

# Declares the receivers of objects: one for revisions and pods, one for ConfigMaps and Secrets.
#
# Must not know the objects behind a call, nor the effects. The driver is the ``Sink``,
# ``activator.knative.system_objects`` is the ``SystemSink``.


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


# A source of objects: reads revisions and their pods, and follows their changes.
#
# The rest of the program knows this interface alone. ``sources`` has the table of all sources.
# Most sources pass raw objects to an inventory; a source may also call the sinks itself.


class SourceError(Exception):
    """A source is unusable; the text has its name, the reason and a remedy."""


class Source(Protocol):
    """Reads objects from one place.

    The caller calls ``start``, runs ``run`` as a task, and awaits ``wait_synced`` before it
    accepts traffic. A failing source never removes objects.
    """

    async def start(self) -> None:
        """Check that the source is usable. A source may read all objects here.

        Raises:
            SourceError: the source is unusable.
        """

    async def run(self) -> None:
        """Follow all changes until cancelled, also after failures."""

    async def wait_synced(self) -> None:
        """Return when every object has been read once; ``run`` must be in progress."""

    async def follow_secret(self, name: str) -> None:
        """Follow one Secret of the system namespace, and return after its first read.

        Also returns if there is no such Secret. The source need not read other Secrets.
        """

    def hurry(self) -> None:
        """Shorten all pauses after failures, since a request has begun to wait."""

    def status(self, now: float) -> SourceStatus:
        """Return the state of the source.

        Arguments:
            now: seconds, on the loop's clock.
        """

    async def close(self) -> None:
        """Close the connections that ``start`` opened, also if ``run`` was never called."""
