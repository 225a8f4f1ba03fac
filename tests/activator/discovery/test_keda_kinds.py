"""Route objects of the KEDA HTTP add-on, through inventory, driver and throttler."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import permutations
from random import Random
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activator.autoscaler.concurrency import ConcurrencyReporter
from activator.discovery.dialect import Scope
from activator.discovery.inventory import DIALECTS, Inventory
from activator.discovery.keda_kinds import KedaDialect
from activator.discovery.rejections import Rejection
from activator.driver import Driver
from activator.keda.revisions import InterceptorDefaults
from activator.knative.system_objects import SystemObjects
from activator.objects.fields import ObjectKey, identify
from activator.plain.route_table import RouteTable
from activator.plain.slices import OwnListener, OwnListeners
from activator.plain.workloads import Index, Matches
from activator.proxy.message.fields import HTTP_1_1
from activator.proxy.message.request import Request
from activator.records.entries import Entries
from tests.activator.discovery.recording import RecordingSink
from tests.activator.discovery.recording import replace as replace_all
from tests.activator.keda.objects import body, route, scaled, target
from tests.activator.objects.test_fields import json_values
from tests.activator.plain.objects import (
    container,
    deployment,
    endpoint,
    named,
    service,
    slice_of,
)
from tests.activator.throttlers import release
from tests.rows import in_one_test
from throttler.errors import RevisionNotFound
from throttler.model import (
    NO_TIMEOUT,
    AppProtocol,
    ProbeKind,
    ReadinessRule,
    Revision,
    RevisionID,
    RevisionKind,
)
from throttler.pod import PodTracker
from throttler.reason import Reason
from throttler.request_policies import InterceptorRules, StaticResponse
from throttler.revision import RevisionThrottler
from throttler.throttler import Limits, Throttler
from throttler.ticket import Ticket
from throttler.wait_reason import waiting_reason

WEB = RevisionID("shop", "web", RevisionKind.HTTP_ROUTE)
SPARE = WEB._replace(kind=RevisionKind.FALLBACK)
NO_SYSTEM_OBJECTS = SystemObjects({}, {}, lambda pems: None)


class World:
    """An activator without sockets."""

    def __init__(self, scope: Scope | None = None, *dialects: str) -> None:
        self.is_async = False
        throttler = Throttler(Limits(), random=lambda: 0.0)
        entries = Entries(
            throttler,
            ConcurrencyReporter(lambda _: None).load,
            table=RouteTable(),
            unknown=RevisionKind.HTTP_ROUTE,
        )
        self.driver = Driver(
            *(throttler, entries),
            clock=lambda: asyncio.get_running_loop().time() if self.is_async else 0.0,
        )
        self.driver.prober = self.driver.pools = self
        self.rejections: list[Rejection] = []
        self.inventory = Inventory(
            *(self.driver, NO_SYSTEM_OBJECTS, self.rejections.append),
            scope=scope or Scope(),
            dialects=[DIALECTS[name] for name in dialects or ("keda",)],
        )
        self.inventory.settled()

    def probe(self, pod: PodTracker) -> None: ...
    def hurry(self, revision: RevisionThrottler) -> None: ...
    def follow(self, pods: Iterable[PodTracker]) -> None:
        """See activator.driver.Pools."""

    def forget(self, pod: PodTracker) -> None: ...

    def apply(self, *objects: Any) -> None:
        for obj in objects:
            self.inventory.apply(obj)

    def delete(self, *objects: Any) -> None:
        for obj in objects:
            metadata = obj["metadata"]
            self.inventory.remove(obj["kind"], metadata["namespace"], metadata["name"])

    def throttler(self, id_: RevisionID = WEB) -> RevisionThrottler:
        return self.driver.throttler.find(*id_)

    def revision(self, id_: RevisionID = WEB) -> Revision:
        return self.throttler(id_).revision

    def rules(self, id_: RevisionID = WEB) -> InterceptorRules:
        requests = self.revision(id_).policies.requests
        assert requests is not None
        assert requests.interceptor is not None
        return requests.interceptor

    def pods(self, id_: RevisionID = WEB) -> list[str]:
        return sorted(pod.address for pod in self.throttler(id_).backends.pods.values())

    def find(self, host: str, path: str = "/", **fields: str) -> str:
        """Return the name of the revision that a request names; empty for none."""
        lines = "".join(f"\r\n{name}: {value}" for name, value in fields.items()).encode()
        asked = Request(b"GET", path.encode(), HTTP_1_1, host.encode(), {}, lines)
        try:
            entry = self.driver.entries.find_host(host.encode(), b"", asked)
        except RevisionNotFound as error:
            return "" if error.kind is RevisionKind.HTTP_ROUTE else error.kind
        return entry.throttler.revision.id.name

    async def clock_moves(self, seconds: float) -> None:
        passed = asyncio.Event()
        asyncio.get_running_loop().call_later(seconds, passed.set)
        await passed.wait()

    def warnings(self) -> list[str]:
        return [f"{each.reason}: {each.text}" for each in self.inventory.warnings]


@pytest.fixture
def world() -> World:
    return World()


class Owner:
    def ticket_assigned(self) -> None: ...
    def ticket_expired(self, reason: Reason, detail: str) -> None: ...


def pass_probes(world: World) -> None:
    for pod in list(world.throttler().backends.pods.values()):
        world.driver.probe_passed(pod, pod.epoch)


# -- joined ----------------------------------------------------------------------------------------

PLACEHOLDER = {"response": {"bodyFromConfigMap": {"name": "files", "key": "a.html"}}}
OBJECTS = (
    route(coldStart={"placeholder": PLACEHOLDER}),
    target(),
    slice_of(endpoint()),
    body(a__html="soon"),
)


@in_one_test("order", list(permutations(range(4))))
def test_everything_is_known_whatever_comes_first(order: tuple[int, ...]) -> None:
    world = World()
    world.apply(*(OBJECTS[index] for index in order))
    assert (world.pods(), world.find("a.com")) == (["10.0.0.1:8080"], "web")
    files = {"a.html": b"soon"}
    placeholder = StaticResponse(503, files=files, key="a.html", config_map="files")
    assert world.rules() == InterceptorRules(
        "InterceptorRoute", "hello:80", placeholder=placeholder
    )
    assert world.rejections == world.warnings() == []


@pytest.mark.parametrize(
    ("wanted", "address"),
    [
        ({"port": 80}, "10.0.0.1:8080"),
        ({"port": 81}, "10.0.0.1:9090"),
        ({"portName": "admin"}, "10.0.0.1:9090"),
    ],
)
def test_a_port_is_found_by_its_name_in_each_slice(world: World, wanted: Any, address: str) -> None:
    """Two slices may have different numbers for one name, as during a rollout."""
    ports = [
        {"name": "web", "port": 80},
        {"name": "admin", "port": 81},
        {"name": "dns", "port": 81, "protocol": "UDP"},
    ]
    in_slice = [{"name": "web", "port": 8080}, {"name": "admin", "port": 9090}]
    world.apply(scaled(scaleTargetRef={"service": "hello", **wanted}), target("hello", *ports))
    world.apply(slice_of(endpoint(), ports=in_slice))
    assert world.pods() == [address]
    other = [{"name": "web", "port": 1}, {"name": "admin", "port": 2}]
    world.apply(slice_of(endpoint("10.0.0.2"), name="hello-2", ports=other))
    assert world.pods() == [address, f"10.0.0.2:{1 if address.endswith('8080') else 2}"]


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [
        ({"appProtocol": "kubernetes.io/h2c"}, AppProtocol.H2C),
        ({"name": "grpc"}, AppProtocol.HTTP1),
        ({"appProtocol": "https"}, AppProtocol.HTTP1),
        ({}, AppProtocol.HTTP1),
    ],
)
def test_pods_speak_http2_only_by_the_one_word(
    world: World, protocol: Any, expected: AppProtocol
) -> None:
    world.apply(scaled(), target("hello", {"port": 80, **protocol}))
    assert (world.revision().protocol, world.revision().tls) == (expected, False)


def test_a_pod_counts_when_kubernetes_lists_it_as_ready(world: World) -> None:
    world.apply(scaled(), target())
    found = world.revision()
    assert found.readiness is ReadinessRule.KUBERNETES_POLICY
    assert (found.probe.kind, found.behind_queue_proxy) == (ProbeKind.TCP, False)
    assert found.container_concurrency == 0
    assert found.probe_why.startswith("Kubernetes must list the pod as ready, as for the KEDA")


HTTP_PROBE: Any = {"readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}}}


@pytest.mark.parametrize("obj", [scaled(), route()], ids=["HTTPScaledObject", "InterceptorRoute"])
def test_a_readiness_probe_is_asked_before_kubernetes_lists_the_pod(world: World, obj: Any) -> None:
    service = target(selector={"app": "hello"})
    world.apply(obj, service, slice_of(endpoint(ready=False)), deployment(container(**HTTP_PROBE)))
    found = world.revision()
    assert (found.probe.kind, found.probe.path) == (ProbeKind.HTTP, b"/ready")
    assert found.probe_why == "This is the readiness probe of container app."
    ticket = Ticket(Owner(), deadline=300.0)
    assert world.throttler().admit(ticket, 0.0) is None
    pass_probes(world)
    assert ticket.pod is not None


@pytest.mark.parametrize(
    ("containers", "rule"),
    [
        ([container(startupProbe={"tcpSocket": {"port": 8080}})], ReadinessRule.STARTUP_PROBE),
        (
            [container(), container("side", 1, readinessProbe={"tcpSocket": {"port": 1}})],
            ReadinessRule.SIDECAR_READINESS_PROBE,
        ),
    ],
)
def test_kubernetes_decides_with_a_check_that_only_kubelet_makes(
    world: World, containers: list[Any], rule: ReadinessRule
) -> None:
    world.apply(scaled(), target(selector={"app": "hello"}), deployment(*containers))
    assert world.revision().readiness is rule


def test_kubernetes_decides_for_pods_of_several_workloads_or_of_none(world: World) -> None:
    one, other = deployment(), named(deployment(), "other")
    world.apply(scaled(), target(selector={"app": "hello"}), one)
    assert world.revision().readiness is ReadinessRule.PROBE
    world.apply(other)
    assert world.revision().readiness is ReadinessRule.KUBERNETES_POLICY
    world.delete(other)
    assert world.revision().readiness is ReadinessRule.PROBE
    world.apply(target())
    assert world.revision().readiness is ReadinessRule.KUBERNETES_POLICY


def test_the_pods_of_a_fallback_have_a_workload_of_their_own(world: World) -> None:
    world.apply(route(coldStart={"fallback": FALLBACK}), target())
    world.apply(target("spare", selector={"app": "hello"}), deployment())
    readiness = world.revision().readiness, world.revision(SPARE).readiness
    assert readiness == (ReadinessRule.KUBERNETES_POLICY, ReadinessRule.PROBE)


FALLBACK = {"service": {"name": "spare", "port": 80}}
LIMITS = InterceptorDefaults(readiness=9, request=8, response_header=7, max_pending=6)


@in_one_test(
    ("obj", "defaults", "readiness", "request_limit", "header"),
    [
        (scaled(), InterceptorDefaults(), NO_TIMEOUT, 0, 300),
        (scaled(), LIMITS, 9, 8, 7),
        (scaled(timeouts={"conditionWait": "2s", "responseHeader": "3s"}), LIMITS, 2, 8, 3),
        (route(timeouts={"readiness": "0s", "request": "0s"}), LIMITS, NO_TIMEOUT, 0, 7),
        (route(timeouts={"responseHeader": "0s"}), LIMITS, 9, 8, NO_TIMEOUT),
        (route(coldStart={"fallback": FALLBACK}), InterceptorDefaults(), 30, 0, 300),
        (route(coldStart={"fallback": FALLBACK}), LIMITS, 9, 8, 7),
        (
            route(coldStart={"fallback": FALLBACK}, timeouts={"readiness": "0s"}),
            *(LIMITS, 30, 8, 7),
        ),
    ],
)
def test_an_object_may_replace_the_limits_of_the_process(
    obj: Any, defaults: InterceptorDefaults, readiness: float, request_limit: float, header: float
) -> None:
    world = World(Scope(interceptor=defaults))
    world.apply(obj)
    requests = world.revision().policies.requests
    assert requests is not None
    assert (requests.wait_seconds, world.rules().request_timeout) == (readiness, request_limit)
    assert world.revision().timeout == header
    assert world.rules().max_pending == defaults.max_pending


def test_a_limit_of_waiting_requests_and_the_header_are_passed_on() -> None:
    world = World(Scope(interceptor=replace(LIMITS, cold_start_header=False)))
    world.apply(route(coldStart={"maxPendingRequests": 3, "placeholder": {"response": {}}}))
    assert (world.rules().max_pending, world.rules().cold_start_header) == (3, False)
    assert world.rules().placeholder == StaticResponse(503)


def test_a_fallback_is_a_revision_of_its_own(world: World) -> None:
    obj = route(coldStart={"fallback": FALLBACK})
    world.apply(obj, target(), target("spare"), slice_of(endpoint("10.0.0.9"), of="spare"))
    assert (world.pods(), world.pods(SPARE)) == ([], ["10.0.0.9:8080"])
    assert (world.rules().fallback, world.rules(SPARE).fallback) == (True, False)
    assert (world.rules().target, world.rules(SPARE).target) == ("hello:80", "spare:80")
    assert world.find("a.com") == "web"


def test_two_objects_may_have_the_same_pods(world: World) -> None:
    world.apply(scaled("web"), route("api", "b.com"), target(), slice_of(endpoint()))
    assert world.pods() == world.pods(WEB._replace(name="api")) == ["10.0.0.1:8080"]
    world.apply(slice_of(endpoint("10.0.0.2")))
    assert world.pods() == world.pods(WEB._replace(name="api")) == ["10.0.0.2:8080"]


def test_a_changed_target_is_followed(world: World) -> None:
    world.apply(scaled(), target(), target("next"), slice_of(endpoint()))
    world.apply(slice_of(endpoint("10.0.0.2"), of="next"))
    world.apply(scaled(scaleTargetRef={"service": "next", "port": 80}))
    assert (world.pods(), world.rules().target) == (["10.0.0.2:8080"], "next:80")


# -- rules -----------------------------------------------------------------------------------------


def test_host_path_and_header_decide(world: World) -> None:
    rules = [{"hosts": ["a.com"], "paths": [{"value": "/api"}]}, {"hosts": ["*.b.com"]}]
    beta = [{"hosts": ["a.com"], "headers": [{"name": "X-Beta", "value": "1"}]}]
    world.apply(route("api", rules=rules), route("beta", rules=beta))
    world.apply(scaled("rest", "a.com"), route("none", rules=[]))
    assert world.find("a.com", "/api/x?y") == "api"
    assert world.find("A.com:8080") == "rest"
    assert world.find("a.com", **{"x-beta": "1"}) == "beta"
    assert world.find("x.b.com") == "api"
    assert world.find("b.com") == ""


def test_an_interceptor_route_hides_the_scaled_object_of_its_name(world: World) -> None:
    world.apply(scaled("web", "old.com"))
    assert (world.find("old.com"), world.rules().kind) == ("web", "HTTPScaledObject")
    world.apply(route("web", "new.com"))
    assert (world.find("old.com"), world.find("new.com")) == ("", "web")
    assert world.rules().kind == "InterceptorRoute"
    assert any("counts instead of the HTTPScaledObject" in text for text in world.warnings())
    world.delete(route("web"))
    assert (world.find("old.com"), world.find("new.com")) == ("web", "")


def test_a_hidden_object_may_go_unnoticed(world: World) -> None:
    world.apply(scaled("web", "old.com"), route("web", "new.com"))
    world.delete(scaled("web"))
    assert world.find("new.com") == "web"


def test_of_two_objects_with_one_route_the_older_has_it_and_the_other_its_other_rules(
    world: World,
) -> None:
    """Of two equally old ones the last by name, as in the add-on."""
    world.apply(scaled("aa", "a.com", "b.com"), scaled("ab", "a.com", "c.com"))
    assert [world.find(host) for host in ("a.com", "b.com", "c.com")] == ["ab", "aa", "ab"]
    owners = world.driver.entries.owners_of(WEB._replace(name="aa"))
    assert {str(key): owner.name for key, owner in owners.items()} == {"a.com": "ab", "b.com": "aa"}
    world.apply(named(scaled("aa"), "aa", creationTimestamp="2025-12-01T00:00:00Z"))
    assert world.find("a.com") == "aa"


def test_only_a_folder_has_unknown_fields(caplog: pytest.LogCaptureFixture) -> None:
    """An API server drops them, or knows fields of a newer version."""
    misspelt = scaled(timeouts={"conditionwait": "1s"})
    World(Scope(folder=False)).apply(target(), misspelt)
    found = World(Scope(folder=True))
    found.apply(target(), misspelt, misspelt)
    text = (
        "the field 'spec.timeouts.conditionwait' is unknown and has no effect; did you mean "
        "conditionWait?"
    )
    assert caplog.messages == [f"HTTPScaledObject shop/web: {text}"]
    [warning] = found.inventory.warnings
    assert (warning.revision, warning.text) == ("web", text)


def test_a_misspelt_field_is_named_beside_the_error_that_it_causes() -> None:
    broken = scaled(scaleTargetRef={"servce": "hello", "port": 80})
    worlds = World(Scope(folder=False)), World(Scope(folder=True))
    for world in worlds:
        world.apply(broken)
    error = "HTTPScaledObject shop/web: spec.scaleTargetRef.service: expected the name of a Service"
    [in_cluster], [in_folder] = (world.rejections for world in worlds)
    assert in_cluster.reason.startswith(error)
    assert in_folder.reason == (
        f"{in_cluster.reason}; the field 'spec.scaleTargetRef.servce' is unknown and has no "
        f"effect; did you mean service?"
    )


async def test_the_loser_of_two_equal_rules_is_logged_once_and_until_it_has_them(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    old = {"creationTimestamp": "2025-12-01T00:00:00Z"}
    winner, loser = named(route("aa", "a.com"), "aa", **old), scaled("ab", "a.com", "c.com")
    world.apply(target(), winner, loser)
    text = (
        "host-conflict: the host a.com belongs to InterceptorRoute shop/aa, which is older or has "
        "the later name, and gets its requests"
    )
    assert world.warnings() == [text]
    world.apply(slice_of(endpoint()), named(scaled("ab", "a.com", "d.com"), "ab"))
    assert [each for each in caplog.messages if "conflict" in each] == [
        f"HTTPScaledObject shop/ab: {text}"
    ]
    world.delete(winner)
    assert (world.warnings(), world.find("a.com")) == ([], "ab")
    world.apply(winner)
    world.delete(loser)
    assert world.warnings() == []


def test_with_annotated_services_the_older_object_has_a_rule() -> None:
    world = World(Scope(services=True), "services", "keda")
    world.apply(service({"hosts": "a.com,b.com"}), route("web", "a.com", "c.com"))
    assert [world.find(host) for host in ("a.com", "b.com", "c.com")] == ["hello", "hello", "web"]
    older = named(route("web", "a.com"), "web", creationTimestamp="2025-01-01T00:00:00Z")
    world.apply(older)
    assert world.find("a.com") == "web"


def test_only_one_namespace_may_count() -> None:
    world = World(Scope(interceptor=InterceptorDefaults(watch_namespace="other")))
    world.apply(scaled("web"), named(scaled("web", "b.com"), "there", namespace="other"))
    assert (world.find("a.com"), world.find("b.com")) == ("", "there")


# -- bodies ----------------------------------------------------------------------------------------

FROM_FILES = {"bodyFromConfigMap": {"name": "files"}}
FILES = route(staticRoutes=[{"rules": [{"paths": [{"value": "/"}]}], "response": FROM_FILES}])


def test_a_body_is_followed_and_may_be_large(world: World) -> None:
    world.apply(FILES, target())
    [problem] = world.warnings()
    assert problem.startswith(
        "limited: the ConfigMap files is missing, or has no label http.keda.sh/"
    )
    world.apply(body(label="false", a="1"))
    assert world.rules().static_routes[0].response.files is None
    large = "x" * (1 << 20)
    world.apply(body(a=large))
    assert world.rules().static_routes[0].response.files == {"a": large.encode()}
    assert world.warnings() == []
    world.delete(body())
    assert world.rules().static_routes[0].response.files is None


def test_a_configmap_of_another_namespace_is_no_body(world: World) -> None:
    world.apply(FILES, named(body(a="1"), "files", namespace="other", labels={}))
    assert world.rules().static_routes[0].response.files is None


# -- what is missing -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("objects", "reason", "text"),
    [
        ([], "no-such-service", "the Service hello is missing, or has type ExternalName"),
        (
            [target("hello", type="ExternalName")],
            *("no-such-service", "the Service hello is missing, or has type ExternalName"),
        ),
        (
            [target("hello", {"name": "web", "port": 8080}, {"port": 9})],
            *(
                "no-such-port",
                "the Service hello has no TCP port 80 (found: web: 8080, no name: 9)",
            ),
        ),
        ([target("hello", {"port": 80, "protocol": "UDP"})], "no-such-port", "(found: none)"),
    ],
)
async def test_requests_wait_while_the_service_or_its_port_is_missing(
    world: World, objects: list[Any], reason: str, text: str
) -> None:
    world.apply(slice_of(endpoint()), scaled(), *objects)
    [problem] = world.warnings()
    assert problem.startswith(f"{reason}: ")
    assert text in problem
    assert problem.endswith(", so requests wait")
    assert world.rules().problem.startswith(f"{reason}: "), "responses have the word of status"
    ticket = Ticket(Owner(), deadline=300.0)
    assert world.throttler().admit(ticket, 0.0) is None
    why, detail = waiting_reason(world.throttler())
    assert (why, text in detail) == (Reason.NO_ENDPOINTS, True)
    world.apply(target())
    pass_probes(world)
    assert ticket.pod is not None
    assert (world.warnings(), world.rules().problem) == ([], "")
    world.driver.close()


def test_the_log_has_a_problem_once_and_not_before_all_kinds_are_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sink = RecordingSink()
    inventory = Inventory(sink, NO_SYSTEM_OBJECTS, dialects=[KedaDialect])
    inventory.apply(scaled())
    assert caplog.messages == []
    inventory.settled()
    inventory.apply(slice_of(endpoint()))
    [text] = caplog.messages
    assert text.startswith("HTTPScaledObject shop/web: no-such-service: the Service hello is miss")


def test_a_missing_fallback_is_no_problem_of_the_target(world: World) -> None:
    world.apply(route(coldStart={"fallback": FALLBACK}), target())
    assert world.warnings() == [
        "limited: the fallback: the Service spare is missing, or has type ExternalName, so "
        "requests wait"
    ]


def test_slices_without_the_port_are_a_problem(world: World) -> None:
    world.apply(scaled(), target(), slice_of(endpoint(), ports=[{"name": "web", "port": 1}]))
    [problem] = world.warnings()
    assert problem.startswith("no-such-port: no EndpointSlice has the port ''")


def test_requests_never_come_back_to_this_process() -> None:
    own = OwnListeners([OwnListener("0.0.0.0", 8080, "--http-port")], "10.0.0.1")
    world = World(Scope(own=own))
    world.apply(scaled(), target(), slice_of(endpoint(), endpoint("10.0.0.2")))
    assert world.pods() == ["10.0.0.2:8080"]
    assert world.warnings()[0].startswith("own-port: 10.0.0.1:8080 (--http-port): the activator")


# -- deleted ---------------------------------------------------------------------------------------


async def test_an_object_that_is_deleted_and_made_again_loses_no_request(world: World) -> None:
    world.is_async = True
    world.apply(scaled(), target(), slice_of(endpoint(ready=False)))
    throttler, first, second = world.throttler(), *(Ticket(Owner(), deadline=1e4) for _ in "12")
    assert throttler.admit(first, 0.0) is None
    world.delete(scaled())
    await world.clock_moves(2.9)
    assert world.find("a.com") == "web"
    assert world.throttler().admit(second, 0.0) is None
    world.apply(named(scaled(), "web", uid="another"), slice_of(endpoint()))
    await world.clock_moves(10)
    pass_probes(world)
    assert (first.pod is not None, second.pod is not None) == (True, True)
    assert world.throttler() is throttler
    world.driver.close()


async def test_a_deleted_object_is_gone_some_seconds_later(world: World) -> None:
    world.is_async = True
    world.apply(route(coldStart={"fallback": FALLBACK}), target(), target("spare"))
    world.apply(slice_of(endpoint()), slice_of(endpoint("10.0.0.9"), of="spare"))
    ticket = Ticket(Owner(), deadline=1e4)
    pass_probes(world)
    world.throttler().admit(ticket, 0.0)
    assert ticket.pod is not None
    world.delete(route())
    await world.clock_moves(3.1)
    assert world.find("a.com") == ""
    [left] = world.driver.throttler
    assert (left.deleted, left.statistics().in_flight) == (True, 1)
    release(world.driver, left, ticket, 0.0)
    assert list(world.driver.throttler) == []
    world.driver.close()


async def test_other_rules_count_before_those_of_a_deleted_object(world: World) -> None:
    """An object under another name takes over at once; a younger one would not, else."""
    world.is_async = True
    world.apply(scaled(), named(scaled(), "next", creationTimestamp="2026-05-01T00:00:00Z"))
    assert world.find("a.com") == "web"
    world.delete(scaled())
    assert world.find("a.com") == "next"
    world.apply(scaled())
    assert world.find("a.com") == "web"
    world.driver.close()


async def test_a_service_that_is_gone_takes_its_pods_along(world: World) -> None:
    """Also with an object that is deleted and made again meanwhile."""
    world.is_async = True
    world.apply(scaled(), target(), slice_of(endpoint()))
    world.delete(scaled(), target(), slice_of())
    world.apply(scaled())
    assert world.pods() == []
    world.driver.close()


def test_nothing_is_kept_of_objects_that_are_all_gone() -> None:
    dialect = KedaDialect(RecordingSink(), NO_SYSTEM_OBJECTS, Scope())
    parsed = []
    selecting = target("spare", selector={"app": "hello"})
    for obj in (*OBJECTS, scaled(), selecting, deployment()):
        key, row = identify(obj, obj["kind"]), KedaDialect.kinds[obj["kind"]]
        parsed.append((key, row, row.parse(key, obj, Scope())))
        row.put(dialect, key, None, parsed[-1][2])
        list(dialect.publishing())
    for key, row, old in parsed:
        row.put(dialect, key, old, None)
        list(dialect.publishing())
    kept = [value for value in vars(dialect).values() if isinstance(value, dict)]
    assert kept == [{}] * 4
    [users] = [each for each in vars(dialect).values() if isinstance(each, Index)]
    assert not any(users.get(key) for key, _, _ in parsed)
    [matches] = [each for each in vars(dialect).values() if isinstance(each, Matches)]
    assert not any(vars(matches).values())
    assert list(dialect.warnings()) == []


# -- random events ---------------------------------------------------------------------------------


def states(chance: Random) -> Iterator[Any]:
    """Yield random states of two route objects of each kind, with their Services and bodies."""
    for name in ("web", "api"):
        created = f"202{chance.randrange(3)}-01-01T00:00:00Z"
        named_as = {"creationTimestamp": created, "uid": chance.choice("12")}
        host = chance.choice(("a.com", "b.com", "*.c.com", "*"))
        to = {"service": chance.choice("st"), **chance.choice(({"port": 80}, {"portName": "web"}))}
        obj = scaled(name, host, scaleTargetRef=chance.choice((to, to, {"service": "s"})))
        yield named(obj, name, **named_as)
        cold = {
            "placeholder": {"response": FROM_FILES},
            **chance.choice(({}, {"fallback": {"service": {"name": "t", "port": 80}}})),
        }
        rules = [{"hosts": [host], "paths": [{"value": chance.choice(("/", "/x"))}]}]
        obj = route(name, target=to, coldStart=cold, rules=chance.choice((rules, rules, "none")))
        yield named(obj, name, **named_as)
    for name in "st":
        port = {"name": chance.choice(("web", "other")), "port": chance.choice((80, 81))}
        kind, app = chance.choice(("ClusterIP", "ClusterIP", "ExternalName")), chance.choice("st")
        yield target(name, port, type=kind, selector={"app": app})
        template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container()]}}
        yield named(deployment(template=template), name)
        in_slice = [{"name": chance.choice(("web", "other")), "port": 8080}]
        pods = [endpoint(f"10.0.{'st'.find(name)}.{n}") for n in range(3)]
        yield slice_of(*pods[: chance.randrange(4)], of=name, ports=in_slice)
    yield body(label=chance.choice(("true", "false")), a=chance.choice("12"))


def all_of(world: World) -> Any:
    """Return all that a request may find, whatever the order of the events was."""
    requests = [(host, path) for host in ("a.com", "b.com", "x.c.com", "d") for path in ("/", "/x")]
    revisions = {
        each.revision.id: (
            each.revision,
            sorted(pod.address for pod in each.backends.pods.values()),
        )
        for each in world.driver.throttler
    }
    warnings = sorted(each for each in world.inventory.warnings if each.reason != "invalid")
    return revisions, [world.find(*each) for each in requests], warnings


@pytest.mark.parametrize("seed", range(16))
@pytest.mark.untraced  # long when traced
async def test_random_events_end_as_a_fresh_start_with_the_last_good_states(seed: int) -> None:
    chance = Random(seed)
    world = World()
    world.is_async = True
    objects: dict[ObjectKey, Any] = {}
    for _ in range(60):
        obj = chance.choice(list(states(chance)))
        key = identify(obj, obj["kind"])
        if chance.random() < 0.3:
            world.delete(obj)
            objects.pop(key, None)
            continue
        if chance.random() < 0.2:
            rest = [each for each in objects if each.kind == key.kind and each != key]
            replace_all(world.inventory, key.kind, [*(objects[each] for each in rest), obj])
        else:
            world.apply(obj)
        if not world.inventory.problem(key):
            objects[key] = obj
        if chance.random() < 0.2:
            await world.clock_moves(chance.choice((1.0, 4.0)))
    for key in list(world.inventory.rejected):  # a broken object of a deleted one
        if key not in objects:
            world.inventory.remove(*key)
    await world.clock_moves(4.0)
    fresh = World()
    fresh.apply(*chance.sample(list(objects.values()), len(objects)))
    assert all_of(world) == all_of(fresh)
    for each in (world, fresh):
        each.driver.close()


# -- hostile objects -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("obj", "where"),
    [
        (scaled(scaleTargetRef={"service": "hello"}), "expected either port or portName"),
        (scaled(headers=[{"name": "x\r\ny"}]), "expected the name of a header field"),
        (scaled(headers=[{"name": "x", "value": "a\0b"}]), "expected the value of a header field"),
        (route(scalingMetric={}), "expected concurrency or requestRate, got neither"),
        (route(rules="all"), "spec.rules: expected a list, got 'all'"),
        (target("hello", {"port": "http"}), "spec.ports[0].port: expected an integer from 1"),
        (slice_of(endpoint("nowhere")), "endpoints[0].addresses[0]: expected an IP address"),
        (body() | {"data": {"a": 1}}, "data[a]: expected a string, got 1"),
    ],
)
def test_a_broken_object_keeps_its_last_good_state_and_stops_no_other(
    world: World, obj: Any, where: str
) -> None:
    good = scaled() if obj["kind"] == "HTTPScaledObject" else OBJECTS[0]
    world.apply(good, *OBJECTS[1:], scaled("other", "b.com"))
    before = world.revision(), world.pods()
    named_alike = obj | {"metadata": obj["metadata"] | {"name": obj["metadata"]["name"]}}
    world.apply(named_alike)
    replace_all(
        world.inventory,
        obj["kind"],
        [named_alike, *([scaled("other", "b.com")] if obj["kind"] == good["kind"] else [])],
    )
    assert where in world.rejections[0].reason
    assert (world.revision(), world.pods()) == before
    assert world.find("a.com") == "web"
    if obj["kind"] != "InterceptorRoute":
        assert world.find("b.com") == "other"


@pytest.mark.untraced
@given(json_values, st.sampled_from(list(KedaDialect.kinds)))
def test_no_value_of_a_field_stops_the_dialect(value: Any, kind: str) -> None:
    sink = RecordingSink()
    inventory = Inventory(sink, sink, lambda rejection: None, dialects=[KedaDialect])
    for obj in (*OBJECTS, FILES, scaled()):
        if obj["kind"] == kind:
            for field in obj:
                inventory.apply(obj | {field: value, "kind": kind})
            for field in obj.get("spec", {}):
                inventory.apply(obj | {"spec": obj["spec"] | {field: value}})
    inventory.apply(scaled())


@pytest.mark.untraced
def test_thousands_of_objects_cost_an_event_nothing(world: World) -> None:
    sink = RecordingSink()
    inventory = Inventory(sink, sink, scope=Scope("system"), dialects=[KedaDialect])
    began = process_time()
    count = 2000
    names = [f"s{n}" for n in range(count)]
    reference = {"port": 80}
    replace_all(inventory, "Service", [target(name) for name in names])
    replace_all(
        inventory,
        "HTTPScaledObject",
        [
            scaled(name, f"{name}.com", scaleTargetRef={"service": name, **reference})
            for name in names
        ],
    )
    assert len(sink.revisions) == count
    assert process_time() - began < 30
    sink.calls.clear()
    began = process_time()
    for n in range(100):
        inventory.apply(slice_of(endpoint(f"10.0.0.{n}"), of="s7"))
        inventory.apply(body(a=str(n)))
    assert {call[1] for call in sink.calls} == {WEB._replace(name="s7")}
    assert process_time() - began < 1
