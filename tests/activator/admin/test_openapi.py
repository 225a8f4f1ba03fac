"""The OpenAPI document, and the tables of the reference."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, TypedDict, cast

import httpx
import pytest
from jsonschema import Draft202012Validator
from starlette.routing import Route

from activator import __version__
from activator.admin.application import ENDPOINTS, create_app, index
from activator.admin.openapi import document
from activator.autoscaler.concurrency import Stat
from activator.records.cold_starts import ColdStartPhase
from activator.records.source_status import SourceStatus
from tests.activator.admin import reference
from tests.activator.telemetry.world import World
from tests.rows import in_one_test
from throttler.model import AppProtocol, Endpoint, ReadinessRule

DOCUMENT = json.loads(json.dumps(document("1.2.3")))
SCHEMAS = DOCUMENT["components"]["schemas"]
POD, OTHER = "10.0.0.1:8012", "10.0.0.2:8012"


@pytest.fixture
def world():
    return World()


def validator(name: str) -> Draft202012Validator:
    """Return a validator that rejects fields that are not in the document."""
    closed = {
        title: {**schema, "additionalProperties": schema.get("additionalProperties", False)}
        for title, schema in SCHEMAS.items()
    }
    return Draft202012Validator(
        {"$ref": f"#/components/schemas/{name}", "components": {"schemas": closed}}
    )


async def get(world, path):
    transport = httpx.ASGITransport(create_app(world), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as session:
        return await session.get(path)


def test_every_schema_is_one():
    for schema in SCHEMAS.values():
        Draft202012Validator.check_schema(schema)
    text = json.dumps(DOCUMENT)
    for name in re.findall(r'"#/components/schemas/(\w+)"', text):
        assert name in SCHEMAS


async def test_the_paths_are_those_that_are_served(world):
    routes = {cast(Route, route).path for route in create_app(world).routes}
    assert set(DOCUMENT["paths"]) == routes - {"/", "/dashboard/{path:path}"}
    assert DOCUMENT["info"]["version"] == "1.2.3"


async def test_it_is_served(world):
    answer = await get(world, "/api/v1/openapi.json")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["paths"] == DOCUMENT["paths"]


def situations(world):
    """Return revisions in every state that the fields distinguish."""
    world.revision("zero", protocol=AppProtocol.H2C)
    world.request(world.revision("waiting"))
    world.pods(world.revision("new", concurrency=0), POD, not_ready=(OTHER,))
    full = world.revision("full")
    world.healthy(full, POD, OTHER)
    for _ in range(6):
        world.request(full)
    world.pods(full, POD)
    failing = world.revision("failing", readiness=ReadinessRule.KUBERNETES_POLICY, timeout=0.5)
    world.driver.set_service(failing.revision.id, {AppProtocol.HTTP1: "10.96.0.5:80"})
    (pod,) = world.pods(failing, POD)
    world.driver.probe_failed(pod, pod.epoch, "status 503", 503)
    assert failing.backends.service.tracker is not None
    world.driver.probe_passed(
        failing.backends.service.tracker, failing.backends.service.tracker.epoch
    )
    world.clock.now += 1.5


@pytest.mark.untraced
async def test_every_response_is_as_the_document_says(world):
    situations(world)
    world.source = SourceStatus("test", "test", {}, errors={"x.yaml": "line 3"})
    world.not_ready = "draining"
    answer = (await get(world, "/api/v1/revisions")).json()
    validator("RevisionsView").validate(answer)
    assert len(answer["revisions"]) == 5
    validator("ActivatorView").validate((await get(world, "/api/v1/activator")).json())
    for one in answer["revisions"]:
        path = f"/api/v1/revisions/{one['namespace']}/{one['name']}"
        validator("RevisionDetailView").validate((await get(world, path)).json())


async def test_cold_starts_are_as_the_document_says(world):
    throttler = world.revision()
    cold_starts = world.driver.cold_starts
    for outcome in ("timed-out", "served", None):
        cold_start = cold_starts.join(throttler, {}, world.clock.now)
        for phase in ColdStartPhase:
            cold_start.reached(phase, world.clock.now)
        if outcome == "served":
            cold_starts.responded(cold_start, world.clock.now, Endpoint(POD), world.clock.now)
            cold_start.lead = 0.5
        if outcome is not None:
            cold_starts.request_ended(cold_start, outcome, world.clock.now)
    answer = (await get(world, "/api/v1/revisions/default/hello")).json()
    assert [one["outcome"] for one in answer["coldStarts"]] == [None, "served", "timed-out"]
    assert [*answer["coldStarts"][0]["phases"]] == [phase.value for phase in ColdStartPhase]
    assert answer["wakeUps"] == answer["coldStarts"]
    validator("RevisionDetailView").validate(answer)
    properties = document("1")["components"]["schemas"]["RevisionDetailView"]["properties"]
    assert [name for name, field in properties.items() if field.get("deprecated")] == ["wakeUps"]


async def test_the_history_is_as_the_document_says(world):
    entry = world.entry(world.revision())
    world.history((Stat(entry.throttler.revision.id, 1.0, 1),))
    world.request(entry.throttler)
    entry.counters.outcomes["cancelled"] += 1
    world.clock.now += 10
    answer = (await get(world, "/api/v1/history")).json()
    assert answer["revisions"][0]["outcomes"] == {"cancelled": [1, 0]}
    validator("HistoryView").validate(answer)


async def test_a_problem_is_as_the_document_says(world):
    answer = await get(world, "/api/v1/revisions/default/unknown")
    validator("ProblemView").validate(answer.json())


async def test_a_word_that_is_not_in_its_closed_set_would_be_noticed(world):
    situations(world)
    answer = (await get(world, "/api/v1/revisions")).json()
    for field, word in (("reason", "bored"), ("readinessRule", "luck"), ("protocol", "gopher")):
        broken = answer["revisions"][0] | {field: word}
        assert not validator("RevisionView").is_valid(broken)
    assert not validator("RevisionView").is_valid(answer["revisions"][0] | {"new": 1})


PAGE = (Path(__file__).parents[3] / "docs" / "reference.md").read_text()
HINT = "python -m tests.activator.admin.reference prints what belongs there"


@in_one_test(("heading", "view"), reference.TABLES)
def test_the_reference_has_the_tables(heading: str, view: type) -> None:
    assert f"\n{reference.table(heading, view)}\n\n" in PAGE, HINT


def test_the_reference_has_the_rules() -> None:
    assert f"\n{reference.rules()}\n\n" in PAGE, HINT


def test_a_field_is_listed_with_its_closed_set() -> None:
    class View(TypedDict):
        plain: Annotated[int, "how many"]
        word: Annotated[str | None, "which", ("a", "b", None)]

    assert reference.table("field", View).splitlines()[2:] == [
        "| `plain` | how many |",
        "| `word` | `a`, `b`: which |",
    ]


def test_every_endpoint_is_listed_with_its_meaning():
    text = index("pod-1")
    assert text.startswith(f"activator {__version__} on pod-1\n\n")
    rows = dict(line.split("  ", 1) for line in text.splitlines() if line.startswith("/"))
    assert {path: meaning.strip() for path, meaning in rows.items()} == dict(ENDPOINTS)


def test_all_that_the_openapi_document_has_is_listed():
    assert {path for path, _ in ENDPOINTS} - {"/"} == set(document("1.2.3")["paths"])
