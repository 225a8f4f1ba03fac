"""All parts joined, without a listener: readiness, objects of a folder, changes by ConfigMaps."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
from pathlib import Path
from typing import Any

import pytest
import trustme

from activator.autoscaler.link import AutoscalerLink
from activator.knative.configmaps.cluster import NetworkConfig
from activator.lab.objects import PodAddress, private_endpoints, revision, write_object
from activator.process import logs
from activator.process.logs import of_activator
from activator.runtime import Runtime, StartError
from activator.settings.config import Settings, load
from tests.activator.discovery.fake_api_server import Answer, FakeApiServer
from tests.activator.keda import objects as keda
from tests.activator.plain import objects as plain
from tests.activator.proxy.tls_world import free_address, secret
from tests.activator.proxy.world import until
from tests.activator.telemetry.records import record
from tests.conftest import on_uvloop
from tests.process import PATIENCE
from tests.stats import decode
from throttler.errors import RevisionNotFound
from throttler.model import MeshMode, Revision, RevisionID, RevisionKind
from throttler.pod import PodState
from throttler.reason import Reason

pytestmark = on_uvloop  # inotify reports files in real time

REVISION, SERVICE = RevisionKind.REVISION, RevisionKind.SERVICE


@pytest.fixture(autouse=True)
def log_level_stays():
    before = logging.getLogger().level
    yield
    logging.getLogger().setLevel(before)


def settings(folder: Path, **flags: str) -> Settings:
    return load("local", {"manifests": str(folder), "bind": "127.0.0.1", **flags}, {})


@pytest.mark.parametrize("dialects", ["services", "knative,services"])
async def test_a_cluster_without_knative_serves_services(tmp_path: Path, dialects: str) -> None:
    """It has none of Knative's kinds and ConfigMaps, and a role may not allow ConfigMaps."""
    async with FakeApiServer() as server:
        for obj in (plain.service(), plain.slice_of(plain.endpoint("127.0.0.1"))):
            server.put(obj)
        server.always["Revision", "list"] = Answer(404)
        if dialects == "services":
            server.always["ConfigMap", "list"] = Answer(403)
        # The pod has the port that is the default of the activator's own admin port.
        flags = {"kubeconfig": server.kubeconfig(tmp_path), "dialect": dialects, "admin_port": "0"}
        environ = {"POD_NAME": "a", "POD_IP": "127.0.0.1", "SYSTEM_NAMESPACE": "activator-system"}
        off = {"autoscaler_url": "", "scaler_url": ""}
        runtime = Runtime(load("run", {**flags, **off}, environ))
        async with asyncio.timeout(PATIENCE), runtime.lifespan():
            throttler = runtime.driver.throttler.find("shop", "hello", SERVICE)
            assert [pod.address for pod in throttler.backends.pods.values()] == ["127.0.0.1:8080"]


ROUTE = RevisionID("shop", "web", RevisionKind.HTTP_ROUTE)


async def test_a_cluster_with_kedas_add_on_alone_serves_its_objects(tmp_path: Path) -> None:
    async with FakeApiServer() as server:
        for obj in (keda.scaled(), keda.target(), plain.slice_of(plain.endpoint("127.0.0.1"))):
            server.put(obj)
        for kind in ("InterceptorRoute", "ConfigMap"):
            server.always[kind, "list"] = Answer(403)
        flags = {"kubeconfig": server.kubeconfig(tmp_path), "dialect": "keda", "admin_port": "0"}
        environ = {"POD_NAME": "a", "POD_IP": "127.0.0.1", "SYSTEM_NAMESPACE": "keda"}
        runtime = Runtime(load("run", flags, environ))
        async with asyncio.timeout(PATIENCE), runtime.lifespan():
            entries = runtime.driver.entries
            assert entries.find_host(b"a.com").throttler is runtime.driver.throttler.find(*ROUTE)
            with pytest.raises(RevisionNotFound) as caught:
                entries.find_host(b"b.com")
            assert caught.value.kind is RevisionKind.HTTP_ROUTE
            assert runtime.ready() == ""
            assert b'kind="http-route"' in b"".join(runtime.metrics())


@pytest.mark.parametrize("dialects", ["keda", "knative,services,keda"])
async def test_a_folder_may_have_objects_of_keda(tmp_path: Path, dialects: str) -> None:
    files = [keda.route(coldStart={"placeholder": {"response": FROM_FILE}}), keda.target()]
    files += [keda.body(a="soon"), plain.slice_of(plain.endpoint("127.0.0.1"))]
    (tmp_path / "all.yaml").write_text("\n---\n".join(map(json.dumps, files)))
    runtime = Runtime(settings(tmp_path, dialect=dialects, admin_port="0"))
    async with runtime.lifespan():
        throttler = runtime.driver.entries.find_host(b"a.com").throttler
        assert throttler is runtime.driver.throttler.find(*ROUTE)
        assert [pod.address for pod in throttler.backends.pods.values()] == ["127.0.0.1:8080"]
        requests = throttler.revision.policies.requests
        assert requests is not None
        assert requests.interceptor is not None
        assert requests.interceptor.placeholder is not None
        assert requests.interceptor.placeholder.files == {"a": b"soon"}
        status = runtime.source_status()
        assert (status.errors, status.warnings) == ({}, ())


FROM_FILE = {"bodyFromConfigMap": {"name": "files", "key": "a"}}


async def test_beside_knative_its_network_configmap_is_required(tmp_path: Path) -> None:
    async with FakeApiServer() as server:
        environ = {"POD_NAME": "a", "POD_IP": "127.0.0.1", "SYSTEM_NAMESPACE": "knative-serving"}
        flags = {"kubeconfig": server.kubeconfig(tmp_path), "dialect": "knative,services"}
        off = {"autoscaler_url": "", "scaler_url": ""}
        runtime = Runtime(load("run", {**flags, **off}, environ))
        with pytest.raises(StartError, match="there is no such ConfigMap"):
            async with asyncio.timeout(PATIENCE), runtime.lifespan():
                pass


async def test_revisions_and_pods_of_the_folder_are_known_before_anything_listens(
    tmp_path: Path,
) -> None:
    write_object(tmp_path, revision("hello"))
    nowhere = PodAddress("127.0.0.1", 1, uid="u", ready=True)
    write_object(tmp_path, private_endpoints("hello", [nowhere]))
    runtime = Runtime(settings(tmp_path))
    async with runtime.lifespan():
        throttler = runtime.driver.throttler.find("default", "hello")
        assert [pod.state for pod in throttler.backends.pods.values()] == [PodState.PROBING]
        assert runtime.ready() == ""
        assert b"kn_revision" in b"".join(runtime.metrics())
    assert len(runtime.tasks) == 0


async def test_nothing_is_kept_of_the_load_of_a_deleted_revision(tmp_path: Path) -> None:
    write_object(tmp_path, revision("hello"))
    runtime = Runtime(settings(tmp_path))
    async with runtime.lifespan():
        entry = runtime.driver.entries.find(b"default", b"hello")
        known = entry.throttler.revision
        runtime.driver.delete_revision(known.id)
        runtime.driver.set_revision(known)
        assert runtime.driver.entries.find(b"default", b"hello").load is not entry.load


async def test_the_history_gets_requests_at_once(tmp_path: Path) -> None:
    """Later it could not know how many requests had ended before."""
    write_object(tmp_path, revision("hello"))
    runtime = Runtime(settings(tmp_path))
    async with runtime.lifespan():
        entry = runtime.driver.entries.find(b"default", b"hello")
        entry.load.request_began(runtime.driver.clock())
        assert [str(name) for name in runtime.history.watched] == ["default/hello"]


async def test_the_readiness_policy_of_the_cluster_counts_for_each_revision(
    tmp_path: Path,
) -> None:
    write_object(tmp_path, revision("hello"))
    runtime = Runtime(settings(tmp_path, readiness_policy="kubernetes"))
    async with runtime.lifespan():
        throttler = runtime.driver.throttler.find("default", "hello")
        assert not throttler.revision.probe_suffices


@pytest.mark.parametrize(
    ("flags", "seen"),
    [
        ({}, (False, b"")),
        ({"server_timing": "true"}, (True, b"")),
        ({"cold_start_header": "true"}, (False, b"\r\nActivator-Cold-Start: false")),
    ],
)
async def test_responses_show_their_wait_as_the_settings_say(
    tmp_path: Path, flags: dict[str, str], seen: tuple[bool, bytes]
) -> None:
    proxy = Runtime(settings(tmp_path, **flags)).proxy
    assert (proxy.services.server_timing, proxy.services.added_lines) == seen


async def test_a_broken_file_is_reported_and_the_rest_is_served(tmp_path: Path) -> None:
    write_object(tmp_path, revision("hello"))
    (tmp_path / "broken.yaml").write_text("kind: [")
    runtime = Runtime(settings(tmp_path))
    async with runtime.lifespan():
        runtime.driver.throttler.find("default", "hello")  # it is known
        source = runtime.source_status()
        assert list(source.errors) == [str(tmp_path / "broken.yaml")]


async def test_a_missing_folder_ends_the_start(tmp_path: Path) -> None:
    folder = tmp_path / "manifests"
    folder.mkdir()
    runtime = Runtime(settings(folder))
    folder.rmdir()
    with pytest.raises(StartError, match="does not exist"):
        async with runtime.lifespan():
            pass


async def test_readiness_says_what_is_missing_in_knatives_words(tmp_path: Path) -> None:
    runtime = Runtime(settings(tmp_path, autoscaler_url="ws://127.0.0.1:1"))
    assert runtime.ready() == "connection has not yet been established"
    runtime.begin_drain("received SIGTERM from kubelet")
    assert runtime.ready() == "received SIGTERM from kubelet"
    assert runtime.proxy.services.draining


class Link:
    """The fields of the autoscaler's link that readiness reads."""

    def __init__(self, *, connected: bool, ever_connected: bool, lost_for: float = 0.0) -> None:
        self.connected, self.ever_connected = connected, ever_connected
        self._lost_for = lost_for

    def lost_for(self) -> float:
        return self._lost_for


NEVER_FOUND = Link(connected=False, ever_connected=False)
FOUND = Link(connected=True, ever_connected=True)
JUST_LOST = Link(connected=False, ever_connected=True, lost_for=89.0)
LONG_LOST = Link(connected=False, ever_connected=True, lost_for=91.0)


@pytest.mark.untraced
@pytest.mark.parametrize(
    ("link", "without", "is_ready"),
    [
        pytest.param(NEVER_FOUND, "false", False, id="an activator that can wake nothing yet"),
        pytest.param(FOUND, "false", True, id="connected"),
        pytest.param(JUST_LOST, "false", False, id="as Knative's"),
        pytest.param(LONG_LOST, "false", True, id="before kubelet restarts it for nothing"),
        pytest.param(NEVER_FOUND, "true", True, id="never asked for"),
        pytest.param(JUST_LOST, "true", True, id="not asked for"),
    ],
)
async def test_a_lost_autoscaler_makes_not_ready_for_less_than_kubelets_patience(
    tmp_path: Path, link: Any, without: str, is_ready: bool
) -> None:
    runtime = Runtime(settings(tmp_path, ready_without_autoscaler=without))
    runtime.links.autoscaler = link
    assert runtime.ready() == ("" if is_ready else "connection has not yet been established")


@pytest.mark.parametrize(
    ("link", "lost"), [(None, False), (FOUND, False), (NEVER_FOUND, True), (JUST_LOST, True)]
)
async def test_requests_without_pods_wait_for_an_autoscaler_that_should_be_there(
    tmp_path: Path, link: Any, lost: bool
) -> None:
    runtime = Runtime(settings(tmp_path))
    runtime.links.autoscaler = link
    wanted = Reason.AUTOSCALER_UNREACHABLE if lost else Reason.NO_ENDPOINTS
    assert why_a_sleeping_one_waits(runtime, RevisionKind.REVISION) is wanted
    assert why_a_sleeping_one_waits(runtime, RevisionKind.SERVICE) is Reason.NO_ENDPOINTS
    runtime.links.autoscaler, runtime.links.scaler = None, link
    wanted = Reason.SCALER_UNREACHABLE if lost else Reason.NO_ENDPOINTS
    assert why_a_sleeping_one_waits(runtime, RevisionKind.REVISION) is Reason.NO_ENDPOINTS
    assert why_a_sleeping_one_waits(runtime, RevisionKind.SERVICE) is wanted


def why_a_sleeping_one_waits(runtime: Runtime, kind: RevisionKind) -> Reason:
    name = RevisionID("default", "sleeping", kind)
    runtime.driver.set_revision(Revision(name))
    return runtime.driver.why(runtime.driver.throttler.find(*name))[0]


async def test_a_missing_scaler_of_services_does_not_make_not_ready(tmp_path: Path) -> None:
    """Services with pods do not need it, and its fail-over takes up to a minute."""
    runtime: Any = Runtime(settings(tmp_path))
    runtime.links.scaler = NEVER_FOUND
    assert runtime.ready() == ""


@pytest.mark.parametrize("dialects", ["knative", "services", "knative,services"])
async def test_each_autoscaler_gets_the_load_of_its_own_kind(
    tmp_path: Path, dialects: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Frames name no kind, so a Revision and a Service of one name must not meet in a frame."""
    frames: list[tuple[AutoscalerLink, str]] = []

    def send(link: AutoscalerLink, frame: bytes, _on_sent: Any) -> None:
        frames.extend((link, str(stat.revision_id)) for stat in decode(frame)[0])

    monkeypatch.setattr(AutoscalerLink, "send", send)
    urls = {"autoscaler_url": "ws://127.0.0.1:1", "scaler_url": "ws://127.0.0.1:1"}
    runtime = Runtime(settings(tmp_path, dialect=dialects, **urls))
    for kind, link in ((SERVICE, runtime.links.scaler), (REVISION, runtime.links.autoscaler)):
        runtime.reporter.loads.load(RevisionID("default", "a", kind)).request_began(0.0)
        assert frames == [(link, "default/a")]
        frames.clear()


async def test_the_log_level_follows_the_configmap_and_a_wrong_one_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    runtime = Runtime(settings(tmp_path))
    caplog.set_level(logging.INFO)
    runtime.system_objects.set_config_map("config-logging", {"loglevel.activator": "error"})
    assert logging.getLogger().level == logging.ERROR
    runtime.system_objects.set_config_map("config-logging", {"loglevel.activator": "loud"})
    assert logging.getLogger().level == logging.ERROR
    runtime.system_objects.set_config_map("config-logging", {})
    assert logging.getLogger().level == logging.INFO
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.INFO]
    assert [line for line in told if line.startswith("log level")] == [
        "log level: error",
        "log level: info",
    ]


async def test_templates_of_waiting_pages_follow_their_configmap(tmp_path: Path) -> None:
    runtime = Runtime(settings(tmp_path))
    runtime.system_objects.set_config_map("activator-pages", {"shop.html": "{{polling}}<p>"})
    services = runtime.proxy.services
    good = services.templates["shop.html"]
    runtime.system_objects.set_config_map("activator-pages", {"shop.html": "<p onclick=a>"})
    assert services.templates["shop.html"] is good
    assert runtime.cluster.error_counts()["activator-pages"] == 1
    runtime.system_objects.set_config_map("activator-pages", {})
    assert (services.templates, runtime.cluster.error_counts()["activator-pages"]) == ({}, 0)


def network_config_map(**data: str) -> dict[str, Any]:
    metadata = {"name": "config-network", "namespace": "knative-serving"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def tls_secret() -> dict[str, Any]:
    metadata = {"name": "routing-serving-certs", "namespace": "knative-serving"}
    pair = secret(trustme.CA())
    data = {key: base64.b64encode(value).decode() for key, value in pair.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}


async def test_how_pods_are_reached_follows_config_network(tmp_path: Path) -> None:
    data = {"mesh-compatibility-mode": "Enabled", "system-internal-tls": "disabled"}
    write_object(tmp_path, network_config_map(**data))
    runtime = Runtime(settings(tmp_path))
    told: list[tuple[MeshMode, bool]] = []
    runtime.driver.set_mesh = lambda *mesh: told.append(mesh)  # type: ignore[method-assign] # spied on
    async with runtime.lifespan():
        assert runtime.cluster.network == NetworkConfig(MeshMode.ENABLED)
        runtime.system_objects.set_config_map(
            "config-network", {"enable-mesh-pod-addressability": "true"}
        )
    assert told == [(MeshMode.ENABLED, False), (MeshMode.AUTO, True)]


async def test_probes_that_a_new_mesh_mode_brings_about_are_asked_in_its_way(
    tmp_path: Path,
) -> None:
    heads: list[bytes] = []
    came = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                heads.append(await reader.readuntil(b"\r\n\r\n"))
                came.set()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nqueue")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        pod = PodAddress("127.0.0.1", port, uid="u", ready=True)
        write_object(tmp_path, revision("hello"))
        write_object(tmp_path, private_endpoints("hello", [pod]))
        runtime = Runtime(settings(tmp_path))
        async with runtime.lifespan(), asyncio.timeout(PATIENCE):
            await came.wait()
            came.clear()
            data = {"enable-mesh-pod-addressability": "true"}
            runtime.system_objects.set_config_map("config-network", data)
            await came.wait()
    assert b"K-Passthrough-Lb: true" not in heads[0]
    assert b"K-Passthrough-Lb: true" in heads[1]


async def test_without_a_limit_connections_to_pods_stay_open(tmp_path: Path) -> None:
    """The first one carries a probe. Knative's 0 means no limit, too."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nqueue")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        pod = PodAddress("127.0.0.1", port, uid="u", ready=True)
        write_object(tmp_path, revision("hello"))
        write_object(tmp_path, private_endpoints("hello", [pod]))
        runtime = Runtime(settings(tmp_path, max_idle_proxy_conns="0"))
        async with runtime.lifespan():
            await until(lambda: runtime.pools.resources.idle == 1)


async def test_no_pod_passes_a_probe_in_plaintext_before_encryption_is_set_up(
    tmp_path: Path,
) -> None:
    """The pod responds to probes in plaintext, and listens on no port for requests over TLS."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nqueue")
        writer.close()

    host = free_address()
    async with await asyncio.start_server(answer, host, 0) as server:
        pod = PodAddress(host, server.sockets[0].getsockname()[1], uid="u", ready=True)
        write_object(tmp_path, revision("hello"))
        write_object(tmp_path, private_endpoints("hello", [pod]))
        write_object(tmp_path, network_config_map(**{"system-internal-tls": "enabled"}))
        write_object(tmp_path, tls_secret())
        runtime = Runtime(settings(tmp_path))
        driver, found = runtime.driver, asyncio.get_running_loop().create_future()
        driver.probe_passed = lambda *how: found.set_result("passed")  # type: ignore[method-assign] # spied on
        driver.probe_failed = lambda *how: found.set_result(how[2])  # type: ignore[method-assign] # spied on
        async with runtime.lifespan(), asyncio.timeout(PATIENCE):
            assert "TLS on port 8112: " in await found


async def test_start_ends_where_it_is_not_known_whether_to_encrypt(tmp_path: Path) -> None:
    write_object(tmp_path, network_config_map(**{"system-internal-tls": "maybe"}))
    with pytest.raises(StartError, match=r"ConfigMap config-network \(.*\): system-internal-tls: "):
        async with Runtime(settings(tmp_path)).lifespan():
            pass


async def test_log_lines_have_the_shape_that_the_operator_gave_them(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = logging.getLogger()
    handlers = list(root.handlers)
    try:
        logs.configure("auto", "info", of_activator("activator-1"))
        runtime = Runtime(settings(tmp_path))
        zap = '{"outputPaths": ["stdout"], "encoderConfig": {"messageKey": "msg"}, "sampling": {}}'
        runtime.system_objects.set_config_map("config-logging", {"zap-logger-config": zap})
        data = {"zap-logger-config": zap, "loglevel.activator": "warn"}
        runtime.system_objects.set_config_map("config-logging", data)
        lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
        assert [line["msg"] for line in lines] == [
            "zap-logger-config: not supported: sampling",
            "log level: warn",
        ]
        assert "severity" not in lines[0]
    finally:
        logs.release()
        root.handlers[:] = handlers
        logging.captureWarnings(False)


async def test_last_line_of_the_request_log_is_written_before_the_end(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    runtime = Runtime(settings(tmp_path))
    data = {"logging.enable-request-log": "true", "logging.request-log-template": "{{.TraceID}}"}
    async with runtime.lifespan():
        runtime.system_objects.set_config_map("config-observability", data)
        assert runtime.proxy.services.request_log is not None
        runtime.proxy.services.request_log.ended(record(trace_id="the-last"))
    assert all(runtime.observers.outputs.close())
    assert capfd.readouterr().out == "the-last\n"
