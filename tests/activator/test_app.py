"""The process as a whole: start, end, and the behaviour when either fails."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
from asyncio.subprocess import DEVNULL
from collections.abc import Awaitable, Mapping
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, Self

import httpx
import pytest
from websockets.asyncio.server import ServerConnection, serve

from activator import app
from activator.authorization import authorizer
from activator.autoscaler.concurrency import Stat
from activator.lab.objects import PodAddress, private_endpoints, revision, write_object
from activator.runtime import Runtime
from activator.servers import Servers
from activator.settings.config import load
from tests.activator.authorization.servers import UNAUTHORIZED, auth_server
from tests.activator.discovery.fake_api_server import Answer, FakeApiServer, event, expired
from tests.activator.discovery.recording import config_map
from tests.conftest import on_uvloop
from tests.ports import hold, port_of
from tests.process import ANY_PORTS, PATIENCE, Activator, activator, until
from tests.stats import decode
from throttler.model import RevisionID

pytestmark = [pytest.mark.e2e, on_uvloop]

CLUSTER = {"POD_NAME": "activator-1", "POD_IP": "10.0.0.9", "SYSTEM_NAMESPACE": "knative-serving"}


def local(
    folder: Path,
    *arguments: str,
    stdout: IO[bytes] | int = DEVNULL,
    environment: Mapping[str, str] | None = None,
    open_files: int = 0,
) -> Any:
    command = ("local", "--manifests", str(folder), *ANY_PORTS, *arguments)
    return activator(*command, stdout=stdout, environment=environment, open_files=open_files)


class Pod:
    """Respond to probes at once, and to requests when ``open`` is set."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.arrived = asyncio.Event()
        self.address: PodAddress
        self._tasks: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        self.address = PodAddress(host, port, uid=f"uid-{port}", name=f"pod-{port}", ready=True)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                if b"\r\nk-network-probe: queue" in head:
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nqueue")
                else:
                    await self.answer(head, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def answer(
        self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Respond to one request, with all bytes at the end."""
        self.arrived.set()
        await self.open.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nqueue")


class Slow(Pod):
    """Respond as the request's target demands; stay in the middle of it until ``open`` is set."""

    async def answer(
        self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.arrived.set()
        if b" /stream " in head:
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
            await self.open.wait()
            writer.write(b"4\r\nlast\r\n0\r\n\r\n")
        elif b" /upload " in head:
            body = await reader.readexactly(10)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n" + body)
        else:
            switch = b"HTTP/1.1 101 Switching\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n"
            writer.write(switch)
            while data := await reader.read(100):
                writer.write(data)


def write_app(folder: Path, name: str, *pods: Pod) -> None:
    write_object(folder, revision(name, uid=f"uid-of-{name}"))
    write_object(folder, private_endpoints(name, [pod.address for pod in pods]))


# The start.


@pytest.mark.usefixtures("real_start")
async def test_start_says_which_ports_and_all_of_them_work(tmp_path: Path) -> None:
    async with Pod() as pod, local(tmp_path) as running:
        line = await running.logged("listening: ")
        for name in ("http", "h2c", "admin", "metrics"):
            assert f"{name} {line[name]}" in line["message"]
            assert line[name].startswith("127.0.0.1:")
            assert not line[name].endswith(":0")
        pod.open.set()
        write_app(tmp_path, "hello", pod)
        await until(
            lambda: _status_is(running.ask("hello"), 200), "a manifest written later counts"
        )
        assert (await running.ask("unknown"))[0] == 404
        header = {"Host": "hello.default.svc.cluster.local"}
        assert await running.get("/", header, "h2c") == (200, "queue")
        assert (await running.get("/healthz", listener="admin"))[0] == 200
        assert (await running.get("/readyz", listener="admin"))[0] == 200
        assert (await running.get("/metrics", listener="metrics"))[0] == 200
        running.tell(signal.SIGTERM)
        assert await running.ended() == 0


async def _status_is(asked: Awaitable[tuple[int, str]], status: int) -> bool:
    return (await asked)[0] == status


@pytest.mark.parametrize("taken", ["--http-port", "--h2c-port", "--admin-port", "--metrics-port"])
async def test_port_in_use_is_named_and_ends_with_1(tmp_path: Path, taken: str) -> None:
    async with Pod() as pod, local(tmp_path, taken, str(pod.address.port)) as running:
        assert await running.ended() == 1
        last = running.lines[-1]
        assert last["severity"] == "ERROR"
        assert f"cannot listen on 127.0.0.1:{pod.address.port} (" in last["message"]
        assert "Traceback" not in running.log


async def test_missing_folder_is_named_and_ends_with_2(tmp_path: Path) -> None:
    async with local(tmp_path / "nowhere") as running:
        assert await running.ended() == 2
        assert "--manifests" in running.log
        assert str(tmp_path / "nowhere") in running.log
        assert "Traceback" not in running.log


async def test_broken_manifest_is_reported_and_the_others_are_served(tmp_path: Path) -> None:
    async with Pod() as pod:
        pod.open.set()
        write_app(tmp_path, "hello", pod)
        broken = tmp_path / "broken.yaml"
        broken.write_text("kind: Revision\nmetadata: [\n")
        async with local(tmp_path) as running:
            line = await running.logged("broken.yaml")
            assert line["severity"] in ("WARNING", "ERROR")
            assert await running.ask("hello") == (200, "queue")
            # The file is correct now: the activator reads it at once, without a restart.
            broken.write_text(json.dumps(revision("mended")))
            await until(
                lambda: _status_is(
                    running.get("/api/v1/revisions/default/mended", listener="admin"), 200
                ),
                "the mended file counts",
            )


async def test_objects_without_effect_are_logged_and_explained(tmp_path: Path) -> None:
    async with Pod() as pod, local(tmp_path) as running:
        mistaken = revision("hello")
        mistaken["metadata"]["annotations"] = {"activator.dev/hash-keys": "header:user"}
        write_object(tmp_path, mistaken)
        unlabelled = private_endpoints("hello", [pod.address])
        labels = unlabelled["metadata"].pop("labels")
        write_object(tmp_path, unlabelled)
        line = await running.logged("Endpoints default/hello-private: ignored, since it has no ")
        assert line["severity"] == "WARNING"
        await running.logged("did you mean activator.dev/hash-key?")
        path = "/api/v1/revisions/default/hello"
        await until(lambda: _is_known(running, "hello"), "hello is known")
        _, body = await running.get(path, listener="admin")
        found = {each["kind"]: each for each in json.loads(body)["objectWarnings"]}
        assert set(found) == {"Revision", "Endpoints"}
        assert found["Endpoints"]["name"] == "hello-private"
        assert found["Endpoints"]["warning"] in line["message"]
        unlabelled["metadata"]["labels"] = labels
        write_object(tmp_path, unlabelled)
        pod.open.set()
        assert await running.ask("hello") == (200, "queue")
        _, body = await running.get("/api/v1/activator", listener="admin")
        assert [each["kind"] for each in json.loads(body)["objectWarnings"]] == ["Revision"]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
async def test_wait_for_an_api_server_is_logged_and_ends_by_a_signal(
    number: signal.Signals, status: int, tmp_path: Path
) -> None:
    async with FakeApiServer() as api:
        api.always["version", "list"] = Answer(503)
        async with cluster_activator(api, tmp_path) as running:
            line = await running.logged("waiting for the API server http://127.0.0.1:")
            assert line["severity"] == "WARNING"
            assert "503" in line["message"]
            running.tell(number)
            assert await running.ended() == status
            assert running.lines[-1]["message"].startswith(f"{number.name}: ending; ")


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
async def test_signal_during_the_start_ends_it(
    number: signal.Signals, status: int, tmp_path: Path
) -> None:
    """The API server does not respond yet; the process must still end."""
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(FakeApiServer())
        api.always["Endpoints", "list"] = Answer(end="silence")
        running = await stack.enter_async_context(cluster_activator(api, tmp_path))
        async with asyncio.timeout(PATIENCE):
            await api.asked("Endpoints", "list")
        running.tell(number)
        assert await running.ended() == status
        assert "Traceback" not in running.log


async def test_cluster_too_old_is_the_last_line_of_the_log(tmp_path: Path) -> None:
    async with FakeApiServer() as api:
        api.git_version = "v1.33.0"
        async with cluster_activator(api, tmp_path) as running:
            assert await running.ended() == 1
            assert "is older than" in running.lines[-1]["message"]


async def test_cluster_that_says_nothing_clear_about_encryption_ends_the_start(
    tmp_path: Path,
) -> None:
    """A wrong word or namespace must not lead to plaintext either."""
    async with FakeApiServer() as api:
        async with cluster_activator(api, tmp_path) as running:
            await running.logged("listening: ")
        api.put(config_map("config-network", **{"system-internal-tls": "enabeld"}))
        command = ("run", *ANY_PORTS, "--kubeconfig", api.kubeconfig(tmp_path))
        async with activator(*command, environment=CLUSTER) as running:
            assert await running.ended() == 1
            assert "system-internal-tls: 'enabeld' cannot be used" in running.lines[-1]["message"]
        api.delete("ConfigMap", "config-network")
        async with activator(*command, environment=CLUSTER) as running:
            assert await running.ended() == 1
            assert "there is no such ConfigMap" in running.lines[-1]["message"]
            assert "namespace knative-serving" in running.lines[-1]["message"]


async def test_kubeconfig_that_leads_nowhere_is_named_and_ends_with_1(tmp_path: Path) -> None:
    path = str(tmp_path / "kubeconfig")
    async with activator("run", *ANY_PORTS, "--kubeconfig", path, environment=CLUSTER) as running:
        assert await running.ended() == 1
        last = running.lines[-1]
        assert last["severity"] == "ERROR"
        assert path in last["message"]
        assert "Traceback" not in running.log


# Changes by ConfigMaps while the process runs.


async def test_request_log_follows_its_configmap_and_is_whole_at_the_end(tmp_path: Path) -> None:
    folder, written = tmp_path / "objects", tmp_path / "stdout"
    folder.mkdir()
    template = "{{.Revision.Name}} {{.Request.RequestURI}} {{.Response.Code}} {{.Response.Size}}"
    switch = "logging.enable-request-log"

    async def configure(running: Activator, level: str, **data: str) -> None:
        """Write the ConfigMap, and wait until a line of the log shows that it was read."""
        mark = {"loglevel.activator": level}  # the activator refuses the value, and logs it
        write_object(folder, config_map("config-observability", **data))
        write_object(folder, config_map("config-logging", **mark))
        await running.logged(repr(level))

    with written.open("wb") as stdout:
        async with Pod() as pod, local(folder, stdout=stdout) as running:
            pod.open.set()
            write_app(folder, "hello", pod)
            await until(lambda: _status_is(running.ask("hello"), 200), "it is served")
            shape = {"logging.request-log-template": template}
            await configure(running, "one", **{switch: "true", **shape})
            host = {"Host": "hello.default.svc.cluster.local"}
            await running.get("/first?a=1", host)
            await running.get("/probe", {**host, "K-Kubelet-Probe": "x"})
            await configure(running, "two", **{switch: "false", **shape})
            await running.get("/second", host)
            await configure(running, "three", **{switch: "true", **shape})
            await running.get("/third", host)
            running.tell(signal.SIGTERM)
            assert await running.ended() == 0
    assert written.read_text() == "hello /first?a=1 200 5\nhello /third 200 5\n"


# The end.


@pytest.mark.usefixtures("real_start")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_signal_finishes_what_runs_and_what_waits_and_ends_with_0(
    tmp_path: Path, number: signal.Signals
) -> None:
    async with Pod() as busy, Pod() as late, local(tmp_path) as running:
        late.open.set()
        write_app(tmp_path, "busy", busy)
        write_app(tmp_path, "cold")
        await running.logged("listening: ")
        for name in ("busy", "cold"):
            await until(partial(_is_known, running, name), f"{name} is known")
        async with asyncio.TaskGroup() as group:
            runs = group.create_task(running.ask("busy"))
            waits = group.create_task(running.ask("cold"))
            await busy.arrived.wait()
            await running.queued("cold", 1)

            running.tell(number)
            again = "Ctrl-C" if number == signal.SIGINT else "signal"
            await running.logged(
                f"{number.name}: draining for at most 30 s; 1 request queued and 1 in flight; "
                f"a second {again} ends at once"
            )
            await until(lambda: _is_closed(running), "no new connection is taken")
            assert (await running.get("/healthz", listener="admin"))[0] == 200
            assert (await running.get("/readyz", listener="admin"))[0] == 503
            assert not runs.done()
            assert not waits.done()

            write_app(tmp_path, "cold", late)
            assert await waits == (200, "queue")
            busy.open.set()
            assert await runs == (200, "queue")
        assert await running.ended() == 0
        assert running.lines[-1]["message"] == "ended; during the shutdown: 2 requests served"
        assert "Traceback" not in running.log


HELLO = b"Host: hello.default.svc.cluster.local\r\n"


async def test_signal_lets_a_stream_an_upload_and_a_tunnel_finish(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        pod = await stack.enter_async_context(Slow())
        write_app(tmp_path, "hello", pod)
        running = await stack.enter_async_context(local(tmp_path))
        address = await running.address("http")
        await until(partial(_is_known, running, "hello"), "hello is known")
        await stack.enter_async_context(asyncio.timeout(PATIENCE))
        connections = [await asyncio.open_connection(*address) for _ in range(4)]
        for _, writer in connections:
            stack.callback(writer.transport.abort)
        idle, streaming, uploading, tunnel = connections
        idle[1].write(b"GET /healthz HTTP/1.1\r\nHost: x\r\nK-Network-Probe: activator\r\n\r\n")
        assert b" 200 OK" in await idle[0].readuntil(b"\r\n\r\nactivator")
        streaming[1].write(b"GET /stream HTTP/1.1\r\n" + HELLO + b"\r\n")
        await streaming[0].readuntil(b"first\r\n")
        upload = b"POST /upload HTTP/1.1\r\n" + HELLO + b"Content-Length: 10\r\n\r\n"
        pod.arrived.clear()
        uploading[1].write(upload + b"01234")
        await pod.arrived.wait()
        tunnel[1].write(
            b"GET / HTTP/1.1\r\n" + HELLO + b"Connection: upgrade\r\nUpgrade: echo\r\n\r\n"
        )
        assert b" 101 " in await tunnel[0].readuntil(b"\r\n\r\n")

        running.tell(signal.SIGTERM)
        assert await idle[0].read() == b""  # no request is in flight on it: closed at once
        await until(lambda: _is_closed(running), "no new connection is taken")
        pod.open.set()
        assert await streaming[0].read() == b"4\r\nlast\r\n0\r\n\r\n"
        uploading[1].write(b"56789")
        assert (await uploading[0].read()).endswith(b"\r\n\r\n0123456789")
        tunnel[1].write(b"still here")
        assert await tunnel[0].readexactly(10) == b"still here"
        assert running.process.returncode is None
        tunnel[1].close()
        assert await running.ended() == 0
        assert "Traceback" not in running.log


async def _is_known(running: Activator, name: str) -> bool:
    return (await running.get(f"/api/v1/revisions/default/{name}", listener="admin"))[0] == 200


async def _is_closed(running: Activator) -> bool:
    try:
        await running.ask("cold-and-unknown")
    except ConnectionError:
        return True
    return False


KUBELET = {"User-Agent": "kube-probe/1.35"}


async def test_during_the_lame_duck_traffic_is_served_while_readiness_says_no(
    tmp_path: Path,
) -> None:
    async with Pod() as pod, local(tmp_path, "--lame-duck", "60s") as running:
        pod.open.set()
        write_app(tmp_path, "hello", pod)
        await until(lambda: _status_is(running.ask("hello"), 200), "it serves")
        assert (await running.get("/", KUBELET))[0] == 200
        idle = await asyncio.open_connection(*await running.address("http"))
        idle[1].write(b"GET / HTTP/1.1\r\n" + HELLO + b"\r\n")
        assert b"connection: close" not in (await idle[0].readuntil(b"queue")).lower()

        running.tell(signal.SIGTERM)
        await running.logged("SIGTERM: serving on for 60 s (lame duck), then draining")
        assert (await running.get("/readyz", listener="admin"))[0] == 503
        assert await running.get("/", KUBELET) == (500, "received SIGTERM from kubelet\n")
        assert await running.ask("hello") == (200, "queue")
        # A client may use a kept connection once more; the response closes it.
        idle[1].write(b"GET / HTTP/1.1\r\n" + HELLO + b"\r\n")
        answer = (await idle[0].read()).lower()
        assert answer.startswith(b"http/1.1 200 ok\r\n")
        assert b"\r\nconnection: close\r\n" in answer
        idle[1].close()


async def test_summary_of_changes_comes_before_the_last_line(tmp_path: Path) -> None:
    pods = [PodAddress("127.0.0.1", 1 + n, uid=f"{n}", name=f"{n}") for n in range(15)]
    async with local(tmp_path) as running:
        await running.logged("listening: ")
        write_object(tmp_path, revision("app", uid="uid-of-app"))
        write_object(tmp_path, private_endpoints("app", pods))
        await running.logged("Kubernetes lists it as ")
        running.tell(signal.SIGTERM)
        assert await running.ended() == 0
        messages = [line["message"] for line in running.lines]
        assert messages[-1].startswith("ended; during the shutdown: ")
        assert sum("more changes" in message for message in messages) == 1


async def test_request_that_waits_too_long_for_the_end_is_sent_elsewhere(
    tmp_path: Path,
) -> None:
    write_app(tmp_path, "cold")
    async with local(tmp_path, "--drain-timeout", "2s") as running:
        async with asyncio.TaskGroup() as group:
            waits = group.create_task(running.ask("cold"))
            await running.queued("cold", 1)
            running.tell(signal.SIGTERM)
            assert await waits == (503, "draining\n")
        assert await running.ended() == 0
        assert running.lines[-1]["message"] == (
            "ended; during the shutdown: 0 requests served, 1 ended by the shutdown (503)"
        )


async def test_request_that_never_ends_does_not_keep_the_process(tmp_path: Path) -> None:
    async with Pod() as pod, local(tmp_path, "--drain-timeout", "1s") as running:
        write_app(tmp_path, "stuck", pod)
        await until(lambda: _is_known(running, "stuck"), "stuck is known")
        asking = asyncio.ensure_future(running.ask("stuck"))
        await pod.arrived.wait()
        running.tell(signal.SIGTERM)
        assert await asking == (503, "draining\n")
        assert await running.ended() == 0
        assert running.lines[-1]["message"] == (
            "ended; during the shutdown: 0 requests served, 1 ended by the shutdown (503, or an "
            "aborted response), 1 connection closed early"
        )


async def test_stream_and_tunnel_that_never_end_are_cut_when_the_drain_time_is_over(
    tmp_path: Path,
) -> None:
    async with AsyncExitStack() as stack:
        pod = await stack.enter_async_context(Slow())
        write_app(tmp_path, "hello", pod)
        running = await stack.enter_async_context(local(tmp_path, "--drain-timeout", "1s"))
        address = await running.address("http")
        await until(partial(_is_known, running, "hello"), "hello is known")
        await stack.enter_async_context(asyncio.timeout(PATIENCE))
        connections = [await asyncio.open_connection(*address) for _ in range(2)]
        for _, writer in connections:
            stack.callback(writer.transport.abort)
        streaming, tunnel = connections
        streaming[1].write(b"GET /stream HTTP/1.1\r\n" + HELLO + b"\r\n")
        await streaming[0].readuntil(b"first\r\n")
        tunnel[1].write(
            b"GET / HTTP/1.1\r\n" + HELLO + b"Connection: upgrade\r\nUpgrade: echo\r\n\r\n"
        )
        assert b" 101 " in await tunnel[0].readuntil(b"\r\n\r\n")

        running.tell(signal.SIGTERM)
        with suppress(ConnectionResetError):
            assert await streaming[0].read() == b""  # without the last chunk of a complete response
        assert await tunnel[0].read() == b""
        assert await running.ended() == 0
        assert "2 connections closed early" in running.log
        assert "Traceback" not in running.log


async def test_listener_that_fails_ends_the_process_with_1_and_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Kubernetes starts another process only if this one ends; a process without a listener is no
    use. The drain waits for a request whose authorization is not decided.
    """
    flags = {"manifests": str(tmp_path), "bind": "127.0.0.1", "lame_duck": "0s"}
    ports = dict.fromkeys(("http_port", "h2c_port", "admin_port", "metrics_port"), "0")
    caplog.set_level("INFO")
    monkeypatch.setattr(authorizer, "LONGEST", PATIENCE)
    made: list[Servers] = []

    class Known(Servers):
        def __init__(self, runtime: Runtime) -> None:
            super().__init__(runtime)
            made.append(self)

    monkeypatch.setattr(app, "Servers", Known)
    async with auth_server() as decides:
        decides.answer = b""
        asking = {"activator.dev/auth-url": decides.url}
        write_object(tmp_path, revision("hello", annotations=asking))
        running = asyncio.ensure_future(app.run_activator(load("local", {**flags, **ports}, {})))
        await until(partial(_has_said, caplog, "listening: "), "it listens")
        http = int(made[0].addresses["http"].rpartition(":")[2])
        waits = asyncio.ensure_future(_get_hello(http))
        await decides.asked.wait()
        assert app.phases_of(made[0].runtime) == (
            "draining for at most 30 s; 0 requests queued, 1 request without a decision about "
            "authorization, and 0 in flight"
        )
        address = made[0].addresses["h2c"]
        made[0].sockets["h2c"].shutdown(socket.SHUT_RDWR)  # accept(2) fails from now on
        failed = partial(_has_said, caplog, f"the listener h2c has failed: {address}")
        await until(failed, "the failure is logged")
        await until(partial(_has_said, caplog, "Shutting down"), "the drain begins to count")
        decides.connections[0].transport.write(UNAUTHORIZED)
        async with asyncio.timeout(PATIENCE):
            assert await running == 1
        assert (await waits).startswith(b"HTTP/1.1 401 ")
    assert "ended; during the shutdown: 0 requests served, 1 denied" in caplog.messages


async def _has_said(caplog: pytest.LogCaptureFixture, text: str) -> bool:
    return text in caplog.text


async def test_second_signal_ends_at_once_with_1(tmp_path: Path) -> None:
    async with local(tmp_path, "--lame-duck", "60s") as running:
        await running.logged("listening: ")
        running.tell(signal.SIGTERM)
        await running.logged("draining")
        running.tell(signal.SIGTERM)
        assert await running.ended() == 1
        assert "Traceback" not in running.log


@pytest.mark.parametrize("signals", [1, 2])
async def test_ctrl_c_in_the_demo_says_what_it_waits_for_and_a_second_one_ends(
    tmp_path: Path, signals: int
) -> None:
    output = tmp_path / "stdout"
    with output.open("wb") as stdout:
        ports = (*("--http-port", "0", "--h2c-port", "0"), *("--admin-port", "0"))
        started = activator("demo", *ports, "--metrics-port", "0", stdout=stdout)
        async with started as running:
            guided = partial(_has_printed, output, "Ctrl-C ends the demo")
            await until(guided, "the guide is printed")
            found = re.search(r"http://127\.0\.0\.1:(\d+)/\n", output.read_text())
            assert found is not None
            waits = asyncio.ensure_future(_get_hello(int(found[1])))
            await until(partial(_has_printed, output, "pods: 0 -> 1"), "a request waits")
            running.tell(signal.SIGINT)
            line = (
                "SIGINT: draining for at most 2 s; 1 request queued and 0 in flight; "
                "a second Ctrl-C ends at once\n"
            )
            await until(partial(_has_printed, output, re.escape(line)), "it says for what it waits")
            if signals == 2:
                running.tell(signal.SIGINT)
                assert await running.ended() == 1
                assert "Traceback" not in running.log
                assert await waits == b""
            else:
                assert await running.ended() == 0
                assert re.search(r"\nended; .*1 ", output.read_text())
                assert (await waits).startswith(b"HTTP/1.1 ")
            # Operators read its log as well.
            assert {line["severity"] for line in running.lines} <= {"PLAIN"}


async def test_demo_starts_a_deployment_without_knative(tmp_path: Path) -> None:
    output = tmp_path / "stdout"
    with output.open("wb") as stdout:
        ports = (*("--http-port", "0", "--h2c-port", "0"), *("--admin-port", "0"))
        started = activator("demo", *ports, "--metrics-port", "0", stdout=stdout)
        async with started as running:
            await until(partial(_has_printed, output, "Events:"), "the guide is printed")
            command = re.search(r"web\.\S+' http://127\.0\.0\.1:(\d+)/\n", output.read_text())
            assert command is not None
            response = await _get_hello(int(command[1]), "web")
            assert response.startswith(b"HTTP/1.1 200 ")
            assert b"Hello from web-1" in response
            assert _printed(output, r"web +pods: 0 -> 1")
            scaler = re.search(r"curl (http://\S+/api/v1/services)", output.read_text())
            assert scaler is not None
            async with httpx.AsyncClient(trust_env=False) as client:
                services = (await client.get(scaler[1])).json()["services"]
            (found,) = (each for each in services if each["name"] == "web")
            assert (found["target"], found["replicas"]["present"]) == ("Deployment/web", 1)
            running.tell(signal.SIGTERM)
            assert await running.ended() == 0
            assert {line["severity"] for line in running.lines} <= {"PLAIN"}


async def _has_printed(output: Path, pattern: str) -> bool:
    return _printed(output, pattern)


def _printed(output: Path, pattern: str) -> bool:
    return re.search(pattern, output.read_text()) is not None


async def _get_hello(port: int, name: str = "hello") -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        host = HELLO.replace(b"hello", name.encode())
        writer.write(b"GET / HTTP/1.1\r\nConnection: close\r\n" + host + b"\r\n")
        return await reader.read()
    finally:
        writer.close()


# In a cluster.


class Autoscaler:
    """The peer of the stat WebSocket."""

    def __init__(self) -> None:
        self.stats: list[Stat] = []
        self.pods: set[str] = set()
        self.close_codes: list[int | None] = []
        self._came = asyncio.Event()

    async def handle(self, connection: ServerConnection) -> None:
        await self._take(connection)
        self.close_codes.append(connection.close_code)

    async def _take(self, connection: ServerConnection) -> None:
        async for frame in connection:
            if isinstance(frame, bytes) and frame:
                stats, pods = decode(frame)
                self.stats += stats
                self.pods |= pods
                self._came.set()

    def of(self, name: str) -> list[Stat]:
        """Return the reports of a revision so far."""
        revision_id = RevisionID("default", name)
        return [stat for stat in self.stats if stat.revision_id == revision_id]

    async def reported(self, name: str, times: int = 1) -> None:
        """Wait until that many reports had a revision."""
        async with asyncio.timeout(PATIENCE):
            while len(self.of(name)) < times:
                self._came.clear()
                await self._came.wait()


def cluster_activator(
    api: FakeApiServer, folder: Path, autoscaler_url: str = "", *flags: str
) -> Any:
    api.put(config_map("config-network"))
    return activator(
        *("run", *ANY_PORTS, "--kubeconfig", api.kubeconfig(folder), "--lame-duck", "0s"),
        *("--autoscaler-url", autoscaler_url, *flags),
        environment=CLUSTER,
    )


@pytest.mark.usefixtures("real_start")
async def test_request_in_a_cluster_pokes_the_autoscaler_and_waits_for_an_endpoints_event(
    tmp_path: Path,
) -> None:
    autoscaler = Autoscaler()
    async with FakeApiServer() as api, Pod() as pod:
        pod.open.set()
        api.put(revision("hello", uid="uid-of-hello"))
        api.put(private_endpoints("hello", []))
        async with serve(autoscaler.handle, "127.0.0.1", 0) as peer:
            port = next(iter(peer.sockets)).getsockname()[1]
            async with cluster_activator(api, tmp_path, f"ws://127.0.0.1:{port}") as running:
                await running.logged("listening: ")
                asking = asyncio.ensure_future(running.ask("hello"))
                await autoscaler.reported("hello")
                assert autoscaler.pods == {"activator-1"}
                await running.queued("hello", 1)

                await api.watched("Endpoints")
                api.put(private_endpoints("hello", [pod.address]))
                assert await asking == (200, "queue")
                await until(
                    lambda: _status_is(running.get("/readyz", listener="admin"), 200), "ready"
                )
                running.tell(signal.SIGTERM)
                assert await running.ended() == 0
                assert "Traceback" not in running.log


async def test_autoscaler_gets_reports_of_requests_until_the_end_and_then_a_close_frame(
    tmp_path: Path,
) -> None:
    """Otherwise it would scale down a service with requests in flight."""
    autoscaler = Autoscaler()
    async with FakeApiServer() as api, Pod() as pod:
        api.put(revision("hello", uid="uid-of-hello"))
        api.put(private_endpoints("hello", [pod.address]))
        async with serve(autoscaler.handle, "127.0.0.1", 0) as peer:
            port = next(iter(peer.sockets)).getsockname()[1]
            async with cluster_activator(api, tmp_path, f"ws://127.0.0.1:{port}") as running:
                await running.logged("autoscaler connected")
                asking = asyncio.ensure_future(running.ask("hello"))
                await pod.arrived.wait()
                running.tell(signal.SIGTERM)
                await until(lambda: _is_closed(running), "no new connection is taken")
                await autoscaler.reported("hello", len(autoscaler.of("hello")) + 2)
                assert autoscaler.of("hello")[-1].concurrency == pytest.approx(1.0, abs=0.01)
                assert autoscaler.close_codes == []
                pod.open.set()
                assert await asking == (200, "queue")
                assert await running.ended() == 0
        assert autoscaler.close_codes == [1001]


async def test_kubelets_probe_passes_once_the_autoscaler_is_there_unless_it_is_not_asked_for(
    tmp_path: Path,
) -> None:
    autoscaler = Autoscaler()
    waiting = (500, "connection has not yet been established\n")
    async with AsyncExitStack() as stack:
        port = port_of(stack.enter_context(hold()))  # no process listens there yet
        url = f"ws://127.0.0.1:{port}"
        api = await stack.enter_async_context(FakeApiServer())
        start = stack.enter_async_context
        running = await start(cluster_activator(api, tmp_path, url))
        careless = await start(
            cluster_activator(api, tmp_path, url, "--ready-without-autoscaler=true")
        )
        assert await careless.get("/", KUBELET) == (200, "")
        assert await running.get("/", KUBELET) == waiting
        async with serve(autoscaler.handle, "127.0.0.1", port):
            await until(lambda: _status_is(running.get("/", KUBELET), 200), "it is connected")
        await until(lambda: _status_is(running.get("/", KUBELET), 500), "it is lost")
        assert await running.get("/", KUBELET) == waiting
        assert await careless.get("/", KUBELET) == (200, "")
        assert (await running.get("/healthz", listener="metrics"))[0] == 200


async def test_traffic_goes_on_while_the_watch_has_expired_and_the_api_server_is_silent(
    tmp_path: Path,
) -> None:
    async with FakeApiServer() as api, Pod() as pod:
        pod.open.set()
        api.put(revision("hello", uid="uid-of-hello"))
        api.put(private_endpoints("hello", [pod.address]))
        async with cluster_activator(api, tmp_path) as running:
            assert await running.ask("hello") == (200, "queue")
            await api.watched("Endpoints")
            # Its state is stale, and the list that it requests does not come.
            api.script["Endpoints", "list"].append(Answer(end="silence"))
            api.send("Endpoints", event("ERROR", expired()))
            async with asyncio.timeout(PATIENCE):
                await api.asked("Endpoints", "list", 2)
            for _ in range(10):
                assert await running.ask("hello") == (200, "queue")
            running.tell(signal.SIGTERM)
            assert await running.ended() == 0
            assert "Traceback" not in running.log


async def test_traffic_continues_without_api_server_and_autoscaler_and_the_api_shows_it(
    tmp_path: Path,
) -> None:
    autoscaler = Autoscaler()
    async with FakeApiServer() as api, Pod() as pod:
        pod.open.set()
        api.put(revision("hello", uid="uid-of-hello"))
        api.put(private_endpoints("hello", [pod.address]))
        gone = AsyncExitStack()
        peer = await gone.enter_async_context(serve(autoscaler.handle, "127.0.0.1", 0))
        port = next(iter(peer.sockets)).getsockname()[1]
        url = f"ws://127.0.0.1:{port}"
        async with gone, cluster_activator(api, tmp_path, url) as running:
            assert await running.ask("hello") == (200, "queue")
            await autoscaler.reported("hello")
            before = await _control_planes(running)
            assert before["autoscaler"]["connected"]
            await api.stop()
            await gone.aclose()

            async def noticed() -> bool:
                now = await _control_planes(running)
                return bool(now["watches"]["Endpoints"]["error"] and now["autoscaler"]["lastError"])

            await until(noticed, "both are gone")
            for _ in range(10):
                assert await running.ask("hello") == (200, "queue")
            first, second = [_ages(await _control_planes(running)) for _ in range(2)]
            assert all(first[what] < second[what] for what in ("Revision", "autoscaler"))
            metrics = (await running.get("/metrics", listener="metrics"))[1]
            assert 'activator_watch_age_seconds{kind="Endpoints"}' in metrics
            assert "activator_autoscaler_link_age_seconds " in metrics


def _ages(found: dict[str, Any]) -> dict[str, float]:
    planes = {**found["watches"], "autoscaler": found["autoscaler"]}
    return {what: plane["ageSeconds"] for what, plane in planes.items()}


async def _control_planes(running: Activator) -> dict[str, Any]:
    """Return the API's view of both control planes."""
    _, text = await running.get("/api/v1/revisions", listener="admin")
    found, _ = json.JSONDecoder().raw_decode(text, text.index("{"))  # one chunk
    activator_view: dict[str, Any] = found["activator"]
    return activator_view


@pytest.mark.untraced
async def test_api_server_that_went_away_is_found_again_with_all_that_changed_meanwhile(
    tmp_path: Path,
) -> None:
    async with FakeApiServer() as api, Pod() as pod, Pod() as other:
        pod.open.set()
        other.open.set()
        api.put(revision("hello", uid="uid-of-hello"))
        api.put(private_endpoints("hello", [pod.address]))
        async with cluster_activator(api, tmp_path) as running:
            assert await running.ask("hello") == (200, "queue")
            await api.watched("Endpoints")
            await api.stop()
            assert await running.ask("hello") == (200, "queue")
            api.put(private_endpoints("hello", [other.address]))
            api.script["Endpoints", "watch"].append(Answer(body=event("ERROR", expired())))
            async with api:
                await _serves(running, other)
            assert await running.ask("hello") == (200, "queue")


async def _serves(running: Activator, pod: Pod) -> None:
    """Wait until requests reach a pod; no request may fail before that."""

    async def look() -> bool:
        assert await running.ask("hello") == (200, "queue")
        return pod.arrived.is_set()

    await until(look, "the change that was missed is known")
