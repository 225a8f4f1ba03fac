"""One pod, with its queue-proxy."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from asyncio.subprocess import PIPE
from contextlib import suppress
from typing import Any

import pytest

from activator.lab import end_with_stdin
from activator.lab.application import Switches
from activator.lab.http1 import HttpRequest
from activator.lab.pod import (
    PodOptions,
    parse_options,
    pod_arguments,
    probe_response,
    traffic_refusal,
)
from tests.process import PATIENCE, addresses

READY, UNREADY, DOWN = Switches(), Switches(ready=False), Switches(running=False)
DRAINING, EXEC = Switches(draining=True), Switches(exec_ready=False)
INVALID = b"unexpected probe header value: other\n"
HASH_MISSING = b'a probe request must contain a non-empty "K-Network-Hash" header\n'


def request(agent: str = "", probe: str = "", hashed: str = "") -> HttpRequest:
    names = {"User-Agent": agent, "K-Network-Probe": probe, "K-Network-Hash": hashed}
    headers = tuple((name, value) for name, value in names.items() if value)
    return HttpRequest("GET", "/any/path", "HTTP/1.1", headers)


@pytest.mark.parametrize(
    "agent", ["kube-probe/1.34", "Knative-Activator-Probe", "Knative-Autoscaling-Probe"]
)
@pytest.mark.parametrize(
    ("probe", "switches", "status", "body"),
    [
        ("queue", READY, 200, b"queue"),
        ("queue", EXEC, 200, b"queue"),
        ("queue", UNREADY, 503, b""),
        ("queue", DOWN, 503, b""),
        ("queue", DRAINING, 503, b"shutting down\n"),
        ("other", READY, 400, INVALID),
        ("", READY, 400, b"unexpected probe header value: \n"),
    ],
    ids=["ready", "exec unseen", "unready", "down", "draining", "other", "absent"],
)
def test_prober_gets_a_response(agent, probe, switches, status, body):
    answer = probe_response(request(agent, probe), switches, PodOptions())
    assert answer is not None
    assert (answer.status, answer.body) == (status, body)


@pytest.mark.parametrize("switches", [UNREADY, DOWN])
def test_queue_proxy_that_cannot_ask_vouches_for_whatever_there_is(switches):
    answer = probe_response(request("kube-probe/1.34", "queue"), switches, PodOptions(blind=True))
    assert answer is not None
    assert (answer.status, answer.body) == (200, b"queue")


@pytest.mark.parametrize(("polls_sidecar", "status"), [(True, 503), (False, 200)])
def test_queue_proxy_responds_for_the_sidecar_only_if_it_polls_it(polls_sidecar, status):
    switches = Switches(sidecar_ready=False)
    answer = probe_response(
        request("kube-probe/1.34", "queue"), switches, PodOptions(polls_sidecar=polls_sidecar)
    )
    assert answer is not None
    assert answer.status == status


@pytest.mark.parametrize(
    ("hashed", "switches", "status", "body"),
    [
        ("h", READY, 200, b""),
        ("", READY, 400, HASH_MISSING),
        ("h", DRAINING, 503, b"shutting down\n"),
    ],
)
def test_ingress_probe_of_any_sender_gets_a_response(hashed, switches, status, body):
    answer = probe_response(request("curl", "probe", hashed), switches, PodOptions())
    assert answer is not None
    assert (answer.status, answer.body) == (status, body)
    assert (("K-Network-Hash", "h") in answer.headers) == (status == 200)


def test_probe_header_of_other_senders_is_traffic():
    assert probe_response(request("curl", "queue"), UNREADY, PodOptions()) is None


@pytest.mark.parametrize(
    ("limit", "in_flight", "running", "status"),
    [(0, 9999, True, None), (2, 22, True, None), (2, 23, True, 503), (2, 1, False, 502)],
    ids=["no limit", "queue just full", "overflow", "application gone"],
)
def test_traffic_is_handed_on_unless_it_cannot_be(limit, in_flight, running, status):
    answer = traffic_refusal(limit, in_flight, running)
    assert (answer and answer.status) == status
    # Go's http.Error adds it. It distinguishes responses of queue-proxy itself.
    assert answer is None or answer.headers == (("X-Content-Type-Options", "nosniff"),)


PROBE = "User-Agent: Knative-Activator-Probe\r\nK-Network-Probe: queue\r\n"


class Running:
    """A started pod."""

    def __init__(self, **options: Any) -> None:
        place = addresses().take()
        self.options = PodOptions(
            "p", place.ip, place.port, place.admin_port, quiet_period=0.05, **options
        )

    async def __aenter__(self) -> Running:
        arguments = pod_arguments(self.options)
        self.process = await end_with_stdin.start("activator.lab.pod", *arguments, stdout=PIPE)
        self.listening = await self.told("listening")
        return self

    async def __aexit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()

    async def told(self, event: str) -> dict[str, Any]:
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            while True:
                found: dict[str, Any] = json.loads(await self.process.stdout.readline())
                if found["event"] == event:
                    return found

    async def ask(self, target: str, headers: str = "", port: int = 0) -> bytes:
        """Send a GET on a new connection; return the whole response."""
        reader, writer = await self.open(port)
        writer.write(f"GET {target} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n".encode())
        async with asyncio.timeout(PATIENCE):
            answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        return answer

    async def admin(self, path: str) -> tuple[bytes, bytes]:
        """Send a GET to the admin port; return head and body of the response."""
        head, _, body = (await self.ask(path, port=self.options.admin_port)).partition(b"\r\n\r\n")
        return head, body

    async def open(self, port: int = 0) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(self.options.address, port or self.options.port)


async def test_requests_and_probes_get_responses_and_are_counted():
    async with Running(report_requests=True) as pod:
        assert (await pod.ask("/", PROBE)).endswith(b"\r\n\r\nqueue")
        assert (await pod.told("probe passed"))["status"] == 200
        assert b"Hello from p" in await pod.ask("/", "x-request-id: r1\r\n")
        told = await pod.told("responded")
        assert (told["path"], told["status"], told["id"]) == ("/", 200, "r1")
        stream = await pod.ask("/stream?n=2&ms=1")
        assert stream.endswith(
            b"d\r\np line 1\n\r\n".replace(b"d", b"9", 1) + b"9\r\np line 2\n\r\n0\r\n\r\n"
        )
        head = await pod.ask("/counters", port=pod.options.admin_port)
        counters = json.loads(head.partition(b"\r\n\r\n")[2])
        assert (counters["requests"], counters["probes"]) == (2, 1)


async def test_one_connection_carries_many_requests_and_errors_end_it():
    async with Running() as pod:
        reader, writer = await pod.open()
        writer.write(b"GET /bytes?n=2 HTTP/1.1\r\n\r\nHEAD /bytes?n=9 HTTP/1.1\r\n\r\n")
        writer.write(b"GET /status?code=204 HTTP/1.1\r\n\r\nwrong\r\n\r\n")
        async with asyncio.timeout(PATIENCE):
            answers = await reader.read()
        assert re.findall(rb"HTTP/1.1 (\d+)", answers) == [b"200", b"200", b"204", b"400"]
        assert b"not an HTTP/1 request line" in answers
        writer.close()
        await writer.wait_closed()


async def test_application_has_no_more_requests_than_its_limit():
    async with Running(container_concurrency=1) as pod:
        began = asyncio.get_running_loop().time()
        await asyncio.gather(*(pod.ask("/sleep?ms=100") for _ in range(3)))
        assert asyncio.get_running_loop().time() - began >= 0.29


async def test_draining_pod_fails_probes_finishes_requests_and_ends():
    size = 50_000_000  # more than the kernel buffers: in flight until the client reads
    async with Running() as pod:
        reader, writer = await pod.open()
        writer.write(b"GET /bytes?n=%d HTTP/1.1\r\nConnection: close\r\n\r\n" % size)
        prober, probing = await pod.open()  # at its end the pod listens for a moment only
        probe = f"GET / HTTP/1.1\r\n{PROBE}\r\n".encode()
        async with asyncio.timeout(PATIENCE):
            head = await reader.readuntil(b"\r\n\r\n")
            probing.write(probe)
            await prober.readuntil(b"queue")
            pod.process.send_signal(signal.SIGTERM)
            assert (await pod.told("draining"))["in_flight"] == 1
            probing.write(probe)
            assert b" 503 " in await prober.readuntil(b"\r\n\r\n")
            assert b" 200 " in head
            assert len(await reader.read()) == size
            assert await pod.process.wait() == 0
        for each in (writer, probing):
            each.close()
            await each.wait_closed()


async def test_killed_application_cuts_its_requests_and_queue_proxy_responds_for_it():
    async with Running(blind=True) as pod:
        slow = asyncio.ensure_future(pod.ask("/sleep?ms=60000"))
        assert b" 200 " in await pod.ask("/", PROBE)
        while json.loads((await pod.admin("/counters"))[1])["inFlight"] == 0:
            pass
        await pod.admin("/kill")
        assert (await pod.told("switched"))["running"] is False
        assert b" 502 " in await slow
        assert b"connection refused" in await pod.ask("/")
        assert b" 200 " in await pod.ask("/", PROBE)
        await pod.admin("/start")
        assert (await pod.told("switched"))["running"] is True
        assert b" 200 " in await pod.ask("/")


@pytest.mark.parametrize(("polls_sidecar", "status"), [(True, b" 503 "), (False, b" 200 ")])
async def test_probe_fails_with_the_sidecar_only_if_queue_proxy_polls_it(polls_sidecar, status):
    async with Running(polls_sidecar=polls_sidecar) as pod:
        assert b" 200 " in await pod.ask("/", PROBE)
        await pod.admin("/toggleSidecarReady")
        assert status in await pod.ask("/", PROBE)
        await pod.admin("/startSidecar")
        assert b" 200 " in await pod.ask("/", PROBE)


async def test_readiness_may_have_a_port_of_its_own():
    async with Running(readiness_port=0) as pod:
        port = pod.listening["readiness_port"]
        assert b" 200 " in await pod.ask("/any", port=port)
        await pod.ask("/toggleReady")
        assert (await pod.told("switched"))["ready"] is False
        assert b" 503 " in await pod.ask("/any", port=port)
        assert json.loads((await pod.admin("/counters"))[1])["atReadinessPort"] == 2


async def test_each_probers_last_probe_is_shown():
    async with Running() as pod:
        await pod.ask("/healthz", PROBE)
        told = json.loads((await pod.admin("/counters"))[1])["lastProbes"]
        assert told["Knative-Activator-Probe"][0] == "GET /healthz"
        assert "K-Network-Probe: queue" in told["Knative-Activator-Probe"]


@pytest.mark.usefixtures("real_start")
async def test_pod_ends_with_its_parent():
    async with Running() as pod:
        assert pod.process.stdin is not None
        pod.process.stdin.close()
        async with asyncio.timeout(PATIENCE):
            assert await pod.process.wait() == 1


async def test_pod_that_cannot_listen_says_so():
    async with Running() as pod:
        arguments = pod_arguments(pod.options)
        process = await end_with_stdin.start("activator.lab.pod", *arguments, stderr=PIPE)
        _, said = await process.communicate()
        assert process.returncode == 1
        assert f"cannot listen on {pod.options.address}:{pod.options.port}".encode() in said


def test_options_come_from_the_command_line():
    switches = {"blind": True, "polls_sidecar": True}
    options = PodOptions("x", "127.0.0.9", 1, 2, 0.5, 3, 0.25, **switches)
    assert parse_options(pod_arguments(options)) == options
    with pytest.raises(SystemExit):
        parse_options(["--port", "many"])
