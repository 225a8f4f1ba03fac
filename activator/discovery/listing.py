"""Lists one kind of objects, page by page.

Decides how a list is requested. Must not know its use.
Counterpart: client-go's tools/pager.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from activator.discovery.backoff import Timings
from activator.discovery.wire import Cluster, ConnectionLostError, Page, check, decode_page

# client-go's page size; the answer to a smaller one is not noticeably quicker.
PAGE_SIZE = 500


class Resource(NamedTuple):
    """One kind of objects, and the requests for it.

    Attributes:
        kind: the kind of the objects.
        path: where the server lists them.
        selector: query parameters that choose among them, of lists and watches alike.
        optional: whether the rest goes on without it where it cannot be read.
        if_missing: a question for people where the server does not have the kind.
    """

    kind: str
    path: str
    selector: Mapping[str, str] = MappingProxyType({})
    optional: bool = False
    if_missing: str = ""


async def pages(
    cluster: Cluster, resource: Resource, timings: Timings, version: str = ""
) -> AsyncIterator[Page]:
    """Yields the pages of one list, which is whole only when the last one has come.

    Arguments:
        cluster: sends the requests.
        timings: how long a page may take.
        version: the list must be at least as fresh; ``0`` is whatever a server has cached, empty
            is the truth, of etcd.

    Raises:
        ConnectionLostError, ServerAnswerError, GarbledError: what came so far is no list.
    """
    params = {"limit": str(PAGE_SIZE), **resource.selector}
    if version:
        params["resourceVersion"] = version
    while True:
        page = await _page(cluster, resource, timings, params)
        yield page
        if not page.metadata.continue_:
            return
        # The first page's version is part of the token, and may not be repeated.
        params.pop("resourceVersion", None)
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
