"""Lists one kind of objects, page by page.

Decides how to request a list. Must not know its use. Counterpart: client-go's tools/pager.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from activator.discovery.backoff import Timings
from activator.discovery.wire import (
    HTTP_FORBIDDEN,
    HTTP_NOT_FOUND,
    HTTP_UNAUTHORIZED,
    Cluster,
    ConnectionLostError,
    Page,
    check,
    decode_page,
)

# client-go's page size; a smaller page is not noticeably faster.
PAGE_SIZE = 500


class Resource(NamedTuple):
    """One kind of objects, and the requests for it.

    Attributes:
        kind: the kind of the objects.
        path: of the list at the server.
        selector: query parameters of lists and watches that select objects.
        optional: whether the activator starts without this resource if it cannot be read.
        may_lack: whether it starts without this resource if the server does not have the kind, or
            if no role allows to read it. It waits out every other failure.
        if_missing: a hint for people if the server does not have the kind.
    """

    kind: str
    path: str
    selector: Mapping[str, str] = MappingProxyType({})
    optional: bool = False
    may_lack: bool = False
    if_missing: str = ""

    def advice(self, status: int) -> str:
        """Return a hint about a refused request, in parentheses; empty without one."""
        name = self.path.rpartition("/")[2]
        if status == HTTP_UNAUTHORIZED:
            return " (the activator reads the credentials again)"
        if status == HTTP_FORBIDDEN:
            return f" (does a role of its service account allow list and watch of {name}?)"
        if status == HTTP_NOT_FOUND:
            return f" ({self.if_missing})" if self.if_missing else ""
        return ""


async def pages(
    cluster: Cluster, resource: Resource, timings: Timings, version: str = ""
) -> AsyncIterator[Page]:
    """Yield the pages of one list. The list is complete only after the last page.

    Arguments:
        cluster: sends the requests.
        timings: the time-out of a page.
        version: the oldest version of the list. ``0`` accepts the server's cache; empty reads
            etcd. Source: "Resource versions" in the Kubernetes API concepts, the table for lists.

    Raises:
        ConnectionLostError, ServerResponseError, GarbledError: the list is incomplete, and the
            caller must not use it.
    """
    params = {"limit": str(PAGE_SIZE), **resource.selector}
    if version:
        params["resourceVersion"] = version
    if version not in ("", "0"):
        # Without it, a list with a limit has exactly this version, from which no watch may begin.
        params["resourceVersionMatch"] = "NotOlderThan"
    while True:
        page = await _page(cluster, resource, timings, params)
        yield page
        if not page.metadata.continue_:
            return
        # The token contains the version of the first page; a request must not repeat both.
        params.pop("resourceVersion", None)
        params.pop("resourceVersionMatch", None)
        params["continue"] = page.metadata.continue_


async def _page(
    cluster: Cluster, resource: Resource, timings: Timings, params: Mapping[str, str]
) -> Page:
    try:
        async with asyncio.timeout(timings.list_page):
            async with cluster.get(resource.path, params, timings.inactivity) as response:
                await check(response)
                body = b"".join([chunk async for chunk in response.chunks()])
    except TimeoutError:
        raise ConnectionLostError("a page of the list took too long") from None
    return decode_page(body, resource.kind)
