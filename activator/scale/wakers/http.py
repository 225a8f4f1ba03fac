"""The waker ``http``: calls of the pods, or of a Service, put a workload to sleep and wake it.

The annotations are input of people who may not act in the scaler's name. So a call has no
credentials, follows no redirect, and reaches neither the API server nor addresses of one machine.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from errno import EPERM
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from activator.objects.fields import host, may_be_pod, root
from activator.plain.annotations import PREFIX, AsleepWhen, WakerWords
from activator.plain.service import PlainService
from activator.plain.slices import SERVICE_LABEL, Condition, parse
from activator.scale.reasons import ScaleReason
from activator.scale.wakers.waker import Access, Rule, State, Waker, WakerFailed, get

if TYPE_CHECKING:
    from activator.scale.workloads.replicas import ScalableKind, ScaleTarget

#: Seconds for one call.
LIMIT: Final = 5.0
#: Bytes of a response.
MOST_BYTES: Final = 64 * 1024
_SLICES: Final = Rule("discovery.k8s.io", "endpointslices", ("list",), "list endpointslices")
_NEEDED: Final = ", ".join(
    f"{PREFIX}{name}" for name in ("sleep-url", "wake-url", "state-url", "asleep-when")
)


class Place(NamedTuple):
    """Where a call goes; ``is_pod`` is whether the slices of a Service name the address."""

    url: str
    is_pod: bool = False


@dataclass(frozen=True, slots=True)
class HttpWaker(Waker[State]):
    """Calls a server to put its pods to sleep. A call may come twice.

    Attributes:
        sleep, wake, state: a path of each pod, or a URL.
        asleep_when: what the response of ``state`` has while the pods sleep.
        service, port: the Service whose slices list the pods, and the name of its port.
    """

    sleep: str
    wake: str
    state: str
    asleep_when: AsleepWhen
    # Two Services of one workload have one waker.
    service: str = field(compare=False)
    port: str = field(compare=False)

    parks = True
    frees = (0, 0, 0)

    def rules(self, kind: ScalableKind) -> Sequence[Rule]:
        return (_SLICES,) if any(map(_is_path, (self.sleep, self.wake, self.state))) else ()

    async def read(self, access: Access, target: ScaleTarget) -> State:
        places = await self._places(access, target, self.state)
        calls = (self._sleeps(access, target.namespace, each) for each in places)
        found = await asyncio.gather(*calls)
        # Without a pod there is nothing asleep: a process is awake when it starts.
        if places and all(found):
            return State(0)
        asleep = (place.url for place, sleeps in zip(places, found, strict=True) if sleeps)
        return State(1, waits_for=f"GET {one}: asleep" if (one := next(asleep, "")) else "")

    async def write(
        self, access: Access, target: ScaleTarget, known: State, replicas: int
    ) -> State | None:
        places = await self._places(access, target, self.wake if replicas else self.sleep)
        if not places:
            raise WakerFailed(ScaleReason.WAKER_FAILED, "the Service has no pod to call")
        # A model takes its time to load: whether it is done, only the state tells.
        calls = (_call(access, target.namespace, "POST", each, patient=True) for each in places)
        await asyncio.gather(*calls)
        return await self.read(access, target)

    async def _places(self, access: Access, target: ScaleTarget, url: str) -> Sequence[Place]:
        """Return what to call."""
        if not _is_path(url):
            return [_named(access, target.namespace, url)]
        label = f"{SERVICE_LABEL}%3D{self.service}"
        path = f"/apis/{_SLICES.group}/v1/namespaces/{target.namespace}/{_SLICES.resource}"
        listed = await get(access.api, target, f"{path}?labelSelector={label}", _SLICES)
        pods: dict[Condition, dict[str, Place]] = {}
        for each in root(listed, "EndpointSliceList")["items"].items():
            if (found := parse(each.value)) is not None and self.port in found.ports:
                for pod in found.endpoints:
                    where = f"http://{host(pod.ip)}:{found.ports[self.port]}{url}"
                    known = pods.setdefault(pod.condition, {})
                    known[pod.uid or pod.ip] = Place(where, is_pod=True)
        # A pod may be not ready because it sleeps; beside one that is ready, it starts.
        called = pods.get(Condition.READY) or pods.get(Condition.NOT_READY) or {}
        return list(called.values())

    async def _sleeps(self, access: Access, namespace: str, place: Place) -> bool:
        body, member = await _call(access, namespace, "GET", place), self.asleep_when.member
        try:
            found = json.loads(body)[member]
        except (ValueError, RecursionError, LookupError, TypeError):
            why = f"the response is no JSON object with the member {member}"
            raise _failed("GET", place, why) from None
        return json.dumps(found) == self.asleep_when.value


def _is_path(url: str) -> bool:
    return url.startswith("/")


def _named(access: Access, namespace: str, url: str) -> Place:
    """Return what a URL leads to; a name without dots is a Service of the namespace."""
    name = urlsplit(url).hostname or ""
    if name in access.hosts:
        return Place(url)
    if "." in name or not url.startswith("http://"):
        why = (
            f"a waker calls http://SERVICE of the namespace, and no other host unless it is in "
            f"--waker-hosts of the scaler: {url}"
        )
        raise WakerFailed(ScaleReason.WAKER_REFUSED, why)
    return Place(url.replace(f"//{name}", f"//{name}.{namespace}.svc", 1))


def _failed(method: str, place: Place, why: str) -> WakerFailed:
    return WakerFailed(ScaleReason.WAKER_FAILED, f"{method} {place.url}: {why}")


async def _call(
    access: Access, namespace: str, method: str, place: Place, *, patient: bool = False
) -> bytes:
    """Send a request without a body; return the body of the response.

    Arguments:
        namespace: of the Service that asks for the call.
        patient: whether the server may still be at work after ``LIMIT``, which is then no failure.

    Raises:
        WakerFailed: the address is not allowed, or the call failed.
    """
    import aiohttp

    is_allowed = urlsplit(place.url).hostname in access.hosts

    def opened(info: Any) -> socket.socket:
        family, kind, protocol, _, (ip, *_) = info
        is_local = ip_address(ip).is_loopback and not place.is_pod
        is_api_server = ip == urlsplit(access.api.host).hostname
        if not is_allowed and (is_local or is_api_server or not may_be_pod(ip)):
            raise PermissionError(EPERM, f"it leads to {ip}, which no waker may call")
        return socket.socket(family, kind, protocol)

    body, limit = bytearray(), aiohttp.ClientTimeout(LIMIT)
    connector = aiohttp.TCPConnector(socket_factory=opened)
    try:
        async with (
            access.calls[namespace],
            aiohttp.ClientSession(connector=connector, timeout=limit) as session,
            session.request(method, place.url, allow_redirects=False) as response,
        ):
            async for some in response.content.iter_any():
                body += some
                if len(body) > MOST_BYTES:
                    raise ValueError(f"the response has more than {MOST_BYTES} bytes")
    except TimeoutError:
        if patient:
            return b""
        raise _failed(method, place, f"no response within {LIMIT:g} s") from None
    except aiohttp.ClientResponseError:
        raise _failed(method, place, "the response is no HTTP/1.1") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise _failed(method, place, str(error)) from error
    if not 200 <= response.status < 300:
        text = body[:200].decode(errors="replace").strip()
        raise _failed(method, place, f"status {response.status}: {text}")
    return bytes(body)


def make(words: WakerWords, service: PlainService) -> HttpWaker | str:
    """Return the waker of these words, or why there is none."""
    urls, when = (words.sleep_url, words.wake_url, words.state_url), words.asleep_when
    if when is None or not all(urls):
        return f"waker http needs the annotations {_NEEDED}"
    port = service.port
    if port is not None and port.tls and any(map(_is_path, urls)):
        return "waker http calls pods without TLS, and appProtocol names TLS: name a Service"
    return HttpWaker(*urls, when, service.pods.name, port.name if port is not None else "")
