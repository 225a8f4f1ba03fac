"""The applications of the admin and the metrics port: paths, queries, long responses."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from activator.admin.application import create_app, create_metrics_app
from activator.admin.http_application import BLOCK, PIECE, encode, in_order, in_turns, json_pieces
from activator.build import running
from activator.console import explain, status
from activator.console.client import parse
from activator.console.screen import plain
from activator.records.entries import Failed
from activator.records.source_status import KindStatus, ObjectWarning, SourceStatus, WatchCounters
from tests.activator.telemetry.world import World
from throttler.model import Policies, RevisionKind, ServiceRoute
from throttler.reason import Reason
from throttler.request_policies import InterceptorRules, RequestPolicies, RouteRule

POD = "10.0.0.1:8012"
REVISIONS = "/api/v1/revisions"


@pytest.fixture
def world():
    return World()


def client(app):
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://localhost")


async def ask(app, path, method="GET"):
    async with client(app) as session:
        return await session.request(method, path)


async def get(world, path):
    return await ask(create_app(world), path)


async def test_healthz_says_ok_even_when_not_ready(world):
    world.not_ready = "received SIGTERM from kubelet"
    answer = await get(world, "/healthz")
    assert (answer.status_code, answer.text) == (200, "ok")


async def test_readyz_says_why_not(world):
    answer = await get(world, "/readyz")
    assert (answer.status_code, answer.text) == (200, "ok")
    world.not_ready = "connection has not yet been established"
    answer = await get(world, "/readyz")
    assert (answer.status_code, answer.text) == (503, "connection has not yet been established")


async def test_readyz_names_certificates_that_expire_if_it_may_have_more_lines(world):
    """They do not make the activator unready: it serves, also with an expired one."""
    world.certificates = ["the certificate of the listener https expired", "that of metrics"]
    assert (await get(world, "/readyz")).text == "ok"
    answer = await get(world, "/readyz?verbose")
    assert (answer.status_code, answer.text.splitlines()) == (200, ["ok", *world.certificates])
    world.not_ready = "draining"
    answer = await get(world, "/readyz?verbose")
    assert (answer.status_code, answer.text.splitlines()[0]) == (503, "draining")
    activator = (await get(world, "/api/v1/activator")).json()
    assert activator["certificateWarnings"] == world.certificates


@pytest.mark.parametrize("text", [b"up 1\n", (b"", b"up ", b"", b"1\n")])
@pytest.mark.parametrize("create", [create_app, create_metrics_app])
async def test_metrics_whole_or_in_pieces(world, text, create):
    world.text = text
    answer = await ask(create(world), "/metrics")
    assert (answer.status_code, answer.text) == (200, "up 1\n")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"


async def test_the_metrics_port_tells_nothing_else(world):
    app = create_metrics_app(world)
    assert (await ask(app, "/healthz")).text == "ok"
    for path in ("/", "/readyz", REVISIONS, f"{REVISIONS}/default/hello"):
        assert (await ask(app, path)).status_code == 404


async def test_revisions_are_sorted_and_complete(world):
    for namespace, name in (("b", "x"), ("a", "y"), ("a-b", "z"), ("a", "b")):
        world.revision(name, namespace=namespace)
    errors = {"/manifests/x.yaml": "line 3: <b>"}
    world.source = SourceStatus(kind="test", name="/manifests", kinds={}, errors=errors)
    answer = await get(world, REVISIONS)
    assert answer.headers["content-type"] == "application/json"
    names = [(one["namespace"], one["name"]) for one in answer.json()["revisions"]]
    assert names == [("a", "b"), ("a", "y"), ("a-b", "z"), ("b", "x")]
    activator = answer.json()["activator"]
    assert activator.pop("version")
    assert activator.pop("build") == running().value
    assert (await get(world, "/api/v1/activator")).json().pop("podName") == "activator-1"
    assert activator == {
        "podName": "activator-1",
        "uptimeSeconds": 60,
        "ready": True,
        "notReadyReason": None,
        "manifestErrors": {"/manifests/x.yaml": "line 3: <b>"},
        "objectWarnings": [],
        "certificateWarnings": [],
        "watches": {},
        "manifests": None,
        "autoscaler": None,
        "scaler": None,
        "scalerPage": None,
        "admission": None,
    }


async def test_without_revisions_the_list_is_empty(world):
    assert (await get(world, REVISIONS)).json()["revisions"] == []


async def test_revisions_of_one_namespace(world):
    for namespace, name in (("b", "x"), ("a", "y"), ("a-b", "z")):
        world.revision(name, namespace=namespace)
    for namespace, names in (("a", ["y"]), ("c", [])):
        answer = await get(world, f"{REVISIONS}?namespace={namespace}")
        assert [one["name"] for one in answer.json()["revisions"]] == names


async def test_revisions_that_are_named(world):
    for namespace, name in (("b", "x"), ("a", "y"), ("a-b", "z"), ("a", "x")):
        world.revision(name, namespace=namespace)
    for query, found in (
        ("revision=b/x&revision=a/y&revision=a/nobody", [("a", "y"), ("b", "x")]),
        ("revision=b/x&namespace=a", []),
    ):
        answer = (await get(world, f"{REVISIONS}?{query}")).json()
        assert [(one["namespace"], one["name"]) for one in answer["revisions"]] == found
        assert answer["activator"]["podName"] == "activator-1"


@pytest.mark.parametrize("path", [REVISIONS, "/api/v1/history"])
@pytest.mark.parametrize("name", ["x", "a/x/", "/x", "a/", "a//x", ""])
async def test_a_revision_that_is_named_in_another_way_is_no_empty_response(world, path, name):
    world.revision()
    answer = await get(world, f"{path}?revision=default/hello&revision={name}")
    assert answer.status_code == 400
    assert answer.json()["detail"] == "Name a revision as in ?revision=NAMESPACE/NAME."


async def test_one_revision_is_an_element_of_the_list(world):
    throttler = world.revision()
    world.healthy(throttler, POD)
    world.request(throttler)
    (element,) = (await get(world, REVISIONS)).json()["revisions"]
    one = (await get(world, f"{REVISIONS}/default/hello")).json()
    assert [one.pop(more) for more in ("nextReason", "nextReasonDetail")] == [None, None]
    assert (one.pop("coldStarts"), one.pop("wakeUps"), one.pop("failures")) == ([], [], {})
    assert one.pop("objectWarnings") == []
    assert one.pop("probe")["kind"] == "tcp"
    assert (one.pop("route"), one.pop("interceptor"), one.pop("tls")) == (None, None, False)
    assert (one.pop("wakeRules"), one.pop("authorization")) == (None, None)
    assert one.pop("keptAwakeBy") == []
    assert (one.pop("queueOrder"), one.pop("whileWaiting")) == (None, None)
    assert (one.pop("profile"), one.pop("waitSeconds"), one.pop("keepAwake")) == (None, None, None)
    assert one == element


async def test_a_route_object_has_its_rules_and_what_it_asks_for(world):
    """Two objects with one rule: the older has it, and of two equal ones the last by name."""
    rules = InterceptorRules("InterceptorRoute", "hello:80", 9.0, fallback=True, max_pending=3)
    requests = RequestPolicies(wait_seconds=20.0, interceptor=rules)
    for name, created in (("web", "2026-01-02"), ("api", "2026-01-01"), ("zap", "2026-01-01")):
        throttler = world.revision(
            name,
            kind=RevisionKind.HTTP_ROUTE,
            behind_queue_proxy=False,
            policies=Policies(requests=requests),
        )
        paths = RouteRule(("a.com",), ("api",)), RouteRule((f"{name}.com",))
        world.driver.set_route(throttler.revision.id, ServiceRoute(created, paths, pods="hello"))
    one = (await get(world, f"{REVISIONS}/default/web")).json()
    assert one["kind"] == "http-route"
    assert one["route"] == {
        "hosts": ["web.com"],
        "rules": ["web.com"],
        "taken": {"a.com/api": "route object default/zap"},
        "port": None,
        "reconnect": False,
        "podsService": "hello",
    }
    assert one["interceptor"] == {
        "object": "InterceptorRoute",
        "target": "hello:80",
        "problem": None,
        "readinessSeconds": 20,
        "requestSeconds": 9,
        "fallback": True,
        "placeholderStatus": None,
        "maxPendingRequests": 3,
        "overflow": False,
        "staticRoutes": 0,
    }
    zap = (await get(world, f"{REVISIONS}/default/zap?kind=http-route")).json()
    assert (zap["route"]["rules"], zap["route"]["taken"]) == (["a.com/api", "zap.com"], {})
    assert (await get(world, f"{REVISIONS}/default/zap?kind=service")).status_code == 404
    rows = status.read_rows(parse((await get(world, REVISIONS)).text))
    assert [row.kind for row in rows] == ["InterceptorRoute"] * 3
    page = plain(explain.page(parse(json.dumps(one))))
    assert "a.com/api: route object default/zap has it" in page
    assert "9 s for the whole request" in page


async def test_a_failure_is_shown_with_its_revision_until_that_is_deleted(world):
    entry = world.entry(world.revision())
    failed = Failed(world.clock.now, 502, Reason.UPSTREAM_FAILED, f"{POD}: closed")
    world.driver.failed(entry, failed)
    (element,) = (await get(world, REVISIONS)).json()["revisions"]
    one = (await get(world, f"{REVISIONS}/default/hello")).json()
    assert one["lastFailure"] == element["lastFailure"]
    assert element["lastFailure"]["detail"] == f"{POD}: closed"
    assert one["failures"] == {"upstream-failed": 1}
    world.driver.delete_revision(entry.throttler.revision.id)
    world.revision()
    (element,) = (await get(world, REVISIONS)).json()["revisions"]
    assert element["lastFailure"] is None


@pytest.mark.parametrize("count", [0, 1, 700])
async def test_the_command_line_reads_what_is_served(world, count):
    for number in range(count):
        throttler = world.revision(f"hello-{number:03}")
        world.healthy(throttler, POD)
        world.request(throttler)
    rows = status.read_rows(parse((await get(world, REVISIONS)).text))
    assert [row.revision for row in rows] == [f"default/hello-{n:03}" for n in range(count)]
    assert {row.state for row in rows} <= {"serving"}


async def test_the_reference_shows_the_very_fields(world):
    page = (Path(__file__).parents[3] / "docs" / "reference.md").read_text()
    found = re.search(r"### `GET /api/v1/revisions`\n\n```json\n(.*?)```", page, re.DOTALL)
    assert found
    throttler = world.revision()
    world.healthy(throttler, POD)
    endpoints = KindStatus(watch=WatchCounters())
    world.source = SourceStatus(kind="test", name="test", kinds={"Endpoints": endpoints})
    warning = ObjectWarning("Endpoints", "default", "cart", "", "ignored")
    world.source = replace(world.source, warnings=(warning,))
    world.certificates = ["the certificate expires"]
    world.links.autoscaler = SimpleNamespace(
        connected=True, last_error="", age=lambda: 1.0, last_sent_age=lambda: 1.0
    )
    assert keys(json.loads(found[1])) == keys((await get(world, REVISIONS)).json())


def keys(value):
    """Return the shape of JSON: field names in order; of a list, the shape of its first element."""
    if isinstance(value, dict):
        return {name: keys(inner) for name, inner in value.items()}
    return [keys(value[0])] if isinstance(value, list) else None


async def test_clients_that_accept_no_html_get_the_list_of_pages_as_text(world):
    world.settings.pod_name = "<script>"
    answer = await get(world, "/")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["vary"] == "Accept"
    assert "on <script>\n" in answer.text
    paths = re.findall(r"^(/\S*)  ", answer.text, re.MULTILINE)
    assert {REVISIONS, "/", "/api/v1/openapi.json"} <= set(paths)
    for path in set(paths) - {"/api/v1/events", "/reasons/{name}"}:  # the first does not end
        world.revision(namespace="{namespace}", name="{name}")
        assert (await get(world, path)).status_code == 200


@pytest.mark.parametrize("name", ["README", "asleep", "asleep.md", "ActivatorNotReady"])
async def test_the_pages_of_reasons_and_alerts_are_served_as_text(world, name):
    page = await get(world, f"/reasons/{name}")
    assert page.headers["content-type"] == "text/plain; charset=utf-8"
    docs = Path(__file__).parents[3] / "docs"
    folder = "runbooks" if name.startswith("A") else "reasons"
    assert page.text == (docs / folder / f"{name.removesuffix('.md')}.md").read_text()


@pytest.mark.parametrize("name", ["unknown", "..%2fREADME", "%2e%2e", ""])
async def test_an_unknown_page_is_not_there(world, name):
    assert (await get(world, f"/reasons/{name}")).status_code == 404


async def test_a_browser_is_shown_the_dashboard(world):
    async with client(create_app(world)) as session:
        accept = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
        answer = await session.get("/", headers={"Accept": accept})
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "accept" in answer.headers["vary"].lower().split(", ")
    assert answer.text.startswith("<!doctype html>")
    assert answer.content == (await get(world, "/dashboard/index.html")).content


async def test_whatever_a_page_of_the_dashboard_names_is_there(world):
    """A page must not lose its script because a file is renamed or not packaged."""
    page = (await get(world, "/dashboard/index.html")).text
    named = re.findall(r'(?:src|href)="/?((?:dashboard|api)/[^"#?]*)"', page)
    assert named
    for path in named:
        assert (await get(world, f"/{path}")).status_code == 200, path


@pytest.mark.parametrize(
    "path", ["%2e%2e/application.py", "%2e%2e%2fapplication.py", "/etc/passwd", "", "index", "%2e"]
)
async def test_nothing_but_the_files_of_the_dashboard_is_served(world, path):
    answer = await get(world, f"http://localhost/dashboard/{path}")
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")


@pytest.mark.parametrize(
    "path",
    [
        "/nothing",
        "http://localhost//healthz",
        "/healthz/",
        "/api/v1/revisions/",
        "/api/v1/revisions/default",
        "/api/v1/revisions/default/hello/pods",
        "/api/v1/revisions/default/unknown",
        "/api/v1/revisions/%ED%A0%80/x",
        "/%ff%00<b>",
    ],
)
async def test_what_is_not_there_is_a_problem(world, path):
    world.revision()
    answer = await get(world, path)
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
    problem = answer.json()
    assert (problem["status"], problem["title"]) == (404, "Not Found")
    assert problem["detail"].endswith(".")


async def test_a_deleted_revision_is_not_found_any_more(world):
    throttler = world.revision()
    world.driver.delete_revision(throttler.revision.id)
    answer = await get(world, f"{REVISIONS}/default/hello")
    assert answer.status_code == 404
    assert "default/hello" in answer.json()["detail"]


async def test_a_deleted_revision_whose_requests_wait_is_listed_and_can_be_asked_for(world):
    throttler = world.revision()
    ticket = world.request(throttler)
    world.driver.delete_revision(throttler.revision.id)
    (listed,) = (await get(world, REVISIONS)).json()["revisions"]
    one = (await get(world, f"{REVISIONS}/default/hello")).json()
    assert (one["deleted"], one["queued"], one["nextReason"]) == (True, 1, None)
    assert (one["reason"], one["reasonDetail"]) == ("no-endpoints", "the object was deleted")
    assert {name: one[name] for name in listed} == listed
    world.driver.cancel(world.driver.throttler.of(ticket.config), ticket, world.clock.now)
    assert (await get(world, REVISIONS)).json()["revisions"] == []
    assert (await get(world, f"{REVISIONS}/default/hello")).status_code == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"])
@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/dashboard/index.html",
        "/healthz",
        "/readyz",
        "/metrics",
        REVISIONS,
        f"{REVISIONS}/a/b",
    ],
)
async def test_nothing_can_be_changed(world, path, method):
    answer = await ask(create_app(world), path, method)
    assert answer.status_code == 405
    assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD"}
    assert answer.json()["status"] == 405


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/dashboard/index.html", "/healthz", "/readyz", "/metrics"),
        *(REVISIONS, f"{REVISIONS}/default/hello", "/api/v1/history"),
    ],
)
async def test_head_is_get_without_a_body(world, path):
    world.revision()
    head, full = await ask(create_app(world), path, "HEAD"), await get(world, path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == full.headers["content-type"]
    length = head.headers.get("content-length")
    assert length in (None, full.headers.get("content-length"))


@pytest.mark.parametrize("path", ["/", "/healthz", REVISIONS, "/nothing"])
async def test_other_pages_in_a_browser_learn_nothing(world, path):
    headers = (await get(world, path)).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in headers


async def test_a_bug_is_a_problem_that_tells_nothing_of_it(world):
    def broken():
        raise RuntimeError("secret")

    world.ready = broken
    answer = await get(world, "/readyz")
    assert (answer.status_code, answer.headers["content-type"]) == (500, "application/problem+json")
    assert "secret" not in answer.text


async def test_strings_that_are_no_utf_8_do_not_hide_the_others(world):
    world.revision("good")
    world.revision("odd", uid="\ud800")
    answer = await get(world, REVISIONS)
    assert [one["uid"] for one in json.loads(answer.text)["revisions"]] == ["u1", "\ud800"]


async def test_the_lifespan_runs_the_parts(world):
    app = create_app(world)
    async with app.router.lifespan_context(app):
        assert world.life == ["started"]
    assert world.life == ["started", "stopped"]


async def test_the_metrics_application_starts_nothing(world):
    app = create_metrics_app(world)
    async with app.router.lifespan_context(app):
        assert world.life == []


@pytest.mark.untraced  # long when traced
async def test_a_long_list_lets_others_run_and_survives_what_they_change(world):
    for number in range(2000):
        own = f"10.1.{number >> 8}.{number & 255}"  # pods of several revisions are compared
        world.pods(world.revision(f"r{number:04}"), f"{own}:8012", f"{own}:8013")
    turns = 0
    done = False

    async def others():
        nonlocal turns
        while not done:
            turns += 1
            world.revision(f"new-{turns}")
            throttler = world.driver.throttler.find("default", f"r{turns:04}")
            world.driver.delete_revision(throttler.revision.id)
            await asyncio.sleep(0)

    other = asyncio.ensure_future(others())
    answer = await get(world, REVISIONS)
    done = True
    await other
    assert turns > 10
    assert len(answer.json()["revisions"]) >= 2000 - turns


async def test_the_address_of_the_scalers_page_is_known() -> None:
    transport = httpx.ASGITransport(create_app(World(), scaler_page="https://scale.example/"))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as session:
        view = (await session.get("/api/v1/activator")).json()
    assert view["scalerPage"] == "https://scale.example/"


ELEMENTS = st.lists(st.dictionaries(st.text(), st.integers() | st.text() | st.none(), max_size=3))


@given(ELEMENTS)
def test_the_pieces_are_one_object(elements):
    text = b"".join(json_pieces("things", elements, {"rest": 1}))
    assert json.loads(text) == {"things": elements, "rest": 1}


def test_no_piece_is_much_longer_than_the_limit_and_nothing_is_made_ahead():
    made = 0

    def elements():
        nonlocal made
        for number in range(1000):
            made += 1
            yield {"number": number, "text": "x" * 1000}

    pieces = json_pieces("things", elements(), {"rest": 1})
    first = next(pieces)
    assert made < 100
    assert max(map(len, [first, *pieces])) < PIECE + 2000


async def test_others_have_a_turn_after_each_piece_also_an_empty_one():
    seen: list[object] = []

    async def others():
        while True:
            seen.append("others")
            await asyncio.sleep(0)

    def pieces():
        for piece in (b"a", b"", b"b"):
            seen.append(piece)
            yield piece

    other = asyncio.ensure_future(others())
    assert [piece async for piece in in_turns(pieces())] == [b"a", b"b"]
    other.cancel()
    assert seen[:6] == [b"a", "others", b"", "others", b"b", "others"]


@pytest.mark.parametrize("value", ["\ud800", {"a": ["\udfff", "é"]}])
def test_half_a_surrogate_pair_is_escaped(value):
    assert json.loads(encode(value)) == value


def test_text_is_utf_8():
    assert encode({"name": "é"}) == '{"name":"é"}'.encode()


@pytest.mark.parametrize("count", [0, 1, BLOCK, 3 * BLOCK + 7])
def test_sorting_pauses_and_then_yields_all_in_order(count):
    items = [f"{number * 7919 % (count + 1):05}" for number in range(count)]
    found = list(in_order(items, str))
    pauses = -(-count // BLOCK)
    assert found == [None] * pauses + sorted(items)


def test_a_pause_among_the_elements_is_an_empty_piece():
    pieces = list(json_pieces("things", iter([None, {"a": 1}, None, {"a": 2}]), {"rest": 1}))
    assert pieces[:2] == [b"", b""]
    assert json.loads(b"".join(pieces)) == {"things": [{"a": 1}, {"a": 2}], "rest": 1}
