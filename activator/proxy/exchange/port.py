"""Describes the ports on which the activator accepts clients."""

from __future__ import annotations

from typing import Final, final


@final
class Admission:
    """How the admission port reads the requests that proxies describe.

    Attributes:
        prefix: stands before the path of a request without fields that describe another one.
        longest: bytes of the longest target.
    """

    __slots__ = ("longest", "prefix")

    def __init__(self, prefix: bytes, longest: int) -> None:
        self.prefix: Final = prefix
        self.longest: Final = longest


@final
class Port:
    """A port on which the activator accepts clients; all its connections share this record.

    Attributes:
        admission: set on the admission port, whose clients are proxies that ask for a pod.
        service: ``namespace/name`` of the plain Service to which the port belongs; empty if it is
            for all revisions.
        reconnect: whether new connections would reach the pods of that Service directly. Then each
            response is the last on its connection; in HTTP/2, GOAWAY follows it.
        insists: whether HTTP/2 connections that are never idle get GOAWAY too.
    """

    __slots__ = ("admission", "insists", "reconnect", "service")

    def __init__(self, service: bytes = b"", admission: Admission | None = None) -> None:
        self.admission: Final = admission
        self.service: Final = service
        self.reconnect = self.insists = False


#: The ports for all revisions.
SHARED: Final = Port()
