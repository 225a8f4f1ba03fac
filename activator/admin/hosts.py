"""Refuse requests from web pages whose host name resolves to this machine (DNS rebinding).

For a browser, such a page and the admin port have the same origin. So the page could read all
responses, since the port has no password. Its requests have its own host name, which the admin
port refuses. An address cannot resolve to another machine, so all addresses are accepted.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from activator.admin.problems import problem

_HOST = re.compile(r"(?:\[(?P<address>[^\]]*)\]|(?P<name>[^:]*))(?::[0-9]*)?")


def is_accepted(host: str, names: Collection[str]) -> bool:
    """Return whether a Host field is an address, ``localhost``, or one of ``names``.

    Arguments:
        host: value of the field, with or without a port.
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
    """ASGI middleware that responds 421 to a foreign host name."""

    def __init__(self, app: ASGIApp, names: Collection[str]) -> None:
        self._app = app
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        # HTTP/1.0 does not require a Host field; browsers always send one.
        host = Headers(scope=scope).get("host") if scope["type"] == "http" else None
        if host is None or is_accepted(host, self._names):
            await self._app(scope, receive, send)
            return
        detail = (
            "The admin port does not accept this host name. Use localhost or an address, or add "
            "the name to ACTIVATOR_ADMIN_HOSTS."
        )
        await problem(421, detail)(scope, receive, send)
