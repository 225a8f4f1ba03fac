"""The election of a leader among candidates on one control plane, in virtual time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from activator.scale.election import LABEL, Candidate, LeasePlace
from tests.activator.scale.world import elapse, until
from tests.control_plane.client import InProcessClient
from tests.control_plane.strict import StrictControlPlane

NAMESPACE = "activator-system"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/activator-scale"


class Election:
    """A control plane with pods, and the candidates in them.

    Attributes:
        changes: whether a pod leads, in the order of changes.
    """

    def __init__(self) -> None:
        self.plane = StrictControlPlane()
        self.changes: list[tuple[str, bool]] = []
        self._running: dict[str, tuple[Candidate, asyncio.Task[None]]] = {}

    async def send(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request; return its status and body."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        data = b"" if body is None else json.dumps(body).encode()
        response = await InProcessClient(self.plane).send(method, path, data, kind)
        return response.status, response.decoded()

    async def pod(self, name: str) -> Candidate:
        """Start a candidate in a pod of its own."""
        metadata = {"name": name, "namespace": NAMESPACE}
        await self.send("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", {"metadata": metadata})
        candidate = Candidate(
            InProcessClient(self.plane),
            LeasePlace(NAMESPACE, "activator-scale", name),
            lambda leads: self.changes.append((name, leads)),
        )
        self._running[name] = candidate, asyncio.ensure_future(candidate.run())
        return candidate

    async def leader(self, name: str = "scale-1") -> Candidate:
        """Start a candidate in a pod of its own, and wait until it leads."""
        candidate = await self.pod(name)
        await until(lambda: candidate.leads, f"{name} leads")
        return candidate

    def kill(self, name: str) -> None:
        """End a candidate at once."""
        self._running.pop(name)[1].cancel()

    async def terminate(self, name: str) -> None:
        """End a candidate as SIGTERM does."""
        candidate, task = self._running.pop(name)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await candidate.release()

    async def labelled(self) -> list[str]:
        """Return the pods with the leader's label."""
        _, pods = await self.send("GET", f"/api/v1/namespaces/{NAMESPACE}/pods")
        return [
            pod["metadata"]["name"]
            for pod in pods["items"]
            if (pod["metadata"].get("labels") or {}).get(LABEL)
        ]

    async def close(self) -> None:
        """End all candidates."""
        for name in list(self._running):
            self.kill(name)
        self.plane.close()


@asynccontextmanager
async def election() -> AsyncIterator[Election]:
    found = Election()
    try:
        yield found
    finally:
        await found.close()


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_one_of_two_leads_and_has_the_label() -> None:
    async with election() as each:
        first = await each.leader()
        second = await each.pod("scale-2")
        await elapse(60)
        assert first.leads
        assert not second.leads
        assert second.holder == "scale-1"
        assert await each.labelled() == ["scale-1"]
        assert each.changes == [("scale-1", True)]


async def test_each_write_of_the_lease_has_a_version_and_six_decimals() -> None:
    async with election() as each:
        await each.leader()
        await elapse(10)
        _, lease = await each.send("GET", LEASE)
        for field in ("acquireTime", "renewTime"):
            assert len(lease["spec"][field].partition(".")[2]) == len("123456Z")
        assert lease["spec"]["leaseDurationSeconds"] == 15
        writes = [call for call in each.plane.calls if call.resource == "leases"]
        assert {call.verb for call in writes} == {"get", "create", "update"}


async def test_after_sigterm_the_other_leads_within_15_seconds() -> None:
    async with election() as each:
        await each.leader()
        second = await each.pod("scale-2")
        await elapse(5)
        await each.terminate("scale-1")
        assert await each.labelled() == []
        ended = now()
        await until(lambda: second.leads, "the second leads")
        assert now() - ended <= 15
        await elapse(1)
        assert await each.labelled() == ["scale-2"]


async def test_after_a_kill_the_other_leads_within_60_seconds_and_takes_the_label_away() -> None:
    async with election() as each:
        await each.leader()
        second = await each.pod("scale-2")
        await elapse(5)
        each.kill("scale-1")
        killed = now()
        assert await each.labelled() == ["scale-1"]
        await until(lambda: second.leads, "the second leads")
        assert 5 < now() - killed <= 60
        await elapse(1)
        assert await each.labelled() == ["scale-2"]


async def test_a_leader_that_is_cut_off_stops_before_another_begins() -> None:
    async with election() as each:
        first = await each.leader()
        await elapse(5)
        each.plane.go_away()
        await until(lambda: not first.leads, "the first stops", within=12)
        assert each.changes[-1] == ("scale-1", False)
        assert first.error
        each.plane.come_back()
        await until(lambda: first.leads, "the first leads again", within=5)


async def test_a_deleted_lease_is_created_again() -> None:
    async with election() as each:
        candidate = await each.leader()
        await each.send("DELETE", LEASE)
        await elapse(5)
        assert (await each.send("GET", LEASE))[0] == 200
        assert candidate.leads


async def test_a_lease_that_a_person_gave_away_is_respected() -> None:
    async with election() as each:
        candidate = await each.leader()
        await each.send("PATCH", LEASE, {"spec": {"holderIdentity": "other_1"}})
        await until(lambda: not candidate.leads, "no leader", within=5)
        await until(lambda: candidate.leads, "a leader again", within=30)


async def test_a_pod_that_starts_again_loses_a_stale_label() -> None:
    async with election() as each:
        await each.leader()
        metadata = {"name": "scale-2", "namespace": NAMESPACE, "labels": {LABEL: "true"}}
        await each.send("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", {"metadata": metadata})
        await each.pod("scale-2")
        await elapse(5)
        assert await each.labelled() == ["scale-1"]


async def test_a_missing_right_to_label_is_logged_once_and_the_leader_leads(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with election() as each:
        each.plane.faults.forbid("patch", "pods", "")
        candidate = await each.pod("scale-1")
        await elapse(20)
        assert candidate.leads
        assert caplog.text.count("label activator.dev/leader of pod scale-1: 403") == 1
        each.plane.faults.allow("patch", "pods", "")
        await elapse(5)
        assert await each.labelled() == ["scale-1"]


async def test_a_missing_right_to_the_lease_is_an_error_that_names_it() -> None:
    async with election() as each:
        each.plane.faults.forbid("get", "leases", "coordination.k8s.io")
        candidate = await each.pod("scale-1")
        await elapse(5)
        assert not candidate.leads
        assert "403" in candidate.error
        assert "leases.coordination.k8s.io" in candidate.error


async def test_a_restarted_container_takes_the_lease_of_its_pod_at_once() -> None:
    async with election() as each:
        await each.leader()
        other = await each.pod("scale-2")
        await elapse(5)
        each.kill("scale-1")
        await elapse(1)
        began = now()
        again = await each.leader("scale-1")
        assert now() - began < 1
        await elapse(30)
        assert again.leads
        assert not other.leads
        assert await each.labelled() == ["scale-1"]


async def test_two_processes_with_one_pod_name_do_not_take_turns() -> None:
    async with election() as each:
        first = await each.leader()
        second = await each.pod("scale-1")
        await until(lambda: second.leads, "the second leads")
        await until(lambda: not first.leads, "the first has stopped", within=2.5)
        led = len(each.changes)
        await elapse(120)
        assert second.leads
        assert not first.leads
        assert len(each.changes) == led
