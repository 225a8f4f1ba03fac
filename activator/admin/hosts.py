"""Keeps out web pages whose host name was made to lead to this machine (DNS rebinding).

For a browser such a page and the admin side are one place, so it may read all that is said here,
and there is no password. Its requests carry the page's own host name: one that is not ours is
refused. Addresses cannot be made to lead elsewhere, so all of them are taken.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from activator.admin.problems import problem

_HOST = re.compile(r"(?:\[(?P<address>[^\]]*)\]|(?P<name>[^:]*))(?::[0-9]*)?")


def is_ours(host: str, names: Collection[str]) -> bool:
    """Whether a Host field is an address, this machine's name for itself, or one of ``names``.

    Arguments:
        host: the field's value, with or without a port.
        names: further host names, in lower case.
    """
    found = _HOST.fullmatch(host)
    if found is None:
        return False
    name = (found["address"] or found["name"] or "").lower().rstrip(".")
    if name == "localhost" or name in names:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class OwnHosts:
    """ASGI middleware that answers 421 where somebody else's host is asked for."""

    def __init__(self, app: ASGIApp, names: Collection[str]) -> None:
        self._app = app
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        # HTTP/1.0 need not say a host; browsers always do.
        host = Headers(scope=scope).get("host") if scope["type"] == "http" else None
        if host is None or is_ours(host, self._names):
            await self._app(scope, receive, send)
            return
        detail = (
            "The admin side is not known by this host name; ask localhost or its address, or name "
            "it in ACTIVATOR_ADMIN_HOSTS."
        )
        await problem(421, detail)(scope, receive, send)
