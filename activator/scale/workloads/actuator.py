"""Changes the replicas of workloads: one request at a time for each, and the newest wish counts.

A wish names the replicas that it is about. If the workload has others meanwhile, nothing is
written, and the caller decides again. Knative's counterpart: applyScale in
pkg/reconciler/autoscaling/kpa/scaler.go.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final, NamedTuple

from activator.objects.fields import ManifestError
from activator.scale.cluster.api import MERGE_PATCH, Api, ApiResponse, ApiUnreachable
from activator.scale.workloads.subresource import (
    VERBS,
    Problem,
    Resource,
    Scale,
    missing_rule,
    parse,
    patch,
    problem,
)

logger = logging.getLogger(__name__)

#: Attempts against other writers of the same object, one after the other.
ATTEMPTS: Final = 5


class Target(NamedTuple):
    """An object whose replicas are changed."""

    resource: Resource
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.resource.kind} {self.namespace}/{self.name}"


class Wish(NamedTuple):
    """A change of replicas.

    Attributes:
        known: the replicas that the decision was about.
        wanted: the replicas to ask for.
    """

    known: int
    wanted: int


class Result(NamedTuple):
    """The result of a wish.

    Attributes:
        replicas: what the workload asks for now; None if that is unknown.
        problem: why the wish failed; None if it did not, or if the replicas had changed.
        detail: the problem for people: the server's text, and the remedy.
        changed_from: how many replicas there were before; None if the wish changed nothing.
    """

    replicas: int | None
    problem: Problem | None = None
    detail: str = ""
    changed_from: int | None = None


class _Failed(Exception):
    def __init__(self, found: Problem, detail: str) -> None:
        super().__init__(detail)
        self.result = Result(None, found, detail)


class Actuator:
    """Changes the replicas of workloads.

    Arguments:
        api: sends the requests.
        start: starts a coroutine as a task.
        report: called with the result of each wish.
    """

    def __init__(
        self,
        api: Api,
        start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        report: Callable[[Target, Result], None],
    ) -> None:
        self._api = api
        self._start = start
        self._report = report
        self._wishes: dict[Target, Wish | None] = {}
        self._busy: set[Target] = set()

    def scale(self, target: Target, wish: Wish) -> None:
        """Carry out a wish as soon as no request for the target is under way."""
        self._wishes[target] = wish
        if target not in self._busy:
            self._busy.add(target)
            self._start(self._run(target))

    def look(self, target: Target) -> None:
        """Read and report the replicas, unless a wish is about to do that."""
        if target not in self._busy:
            self._wishes[target] = None
            self._busy.add(target)
            self._start(self._run(target))

    def cancel(self, target: Target) -> None:
        """Remove a wish that has not been sent."""
        self._wishes.pop(target, None)

    async def _run(self, target: Target) -> None:
        try:
            while target in self._wishes:
                self._report(target, await self._carry_out(target, self._wishes.pop(target)))
        finally:
            self._busy.discard(target)

    async def _carry_out(self, target: Target, wish: Wish | None) -> Result:
        try:
            for _ in range(ATTEMPTS):
                scale = await self._read(target)
                if wish is None:
                    return Result(scale.replicas if scale else 0)
                if scale is not None and scale.replicas != wish.known:
                    return Result(scale.replicas)
                changed = await self._write(target, scale or Scale(0, "", ""), wish.wanted)
                if changed is not None:
                    logger.debug("%s: %d -> %d replicas", target, wish.known, changed.replicas)
                    return Result(changed.replicas, changed_from=wish.known)
        except _Failed as failed:
            return failed.result
        return Result(None, Problem.CONFLICT, f"other components changed it {ATTEMPTS} times")

    async def _read(self, target: Target) -> Scale | None:
        """Return the replicas; None for an object that has never had any."""
        response = await self._send(target, "GET")
        if response.is_ok:
            return _parsed(response)
        found = problem(response.status, response.message())
        if found is Problem.UNSET:
            return None
        raise _failure(target, "get", response, found)

    async def _write(self, target: Target, known: Scale, replicas: int) -> Scale | None:
        """Return the new replicas; None if the object has changed meanwhile."""
        response = await self._send(target, "PATCH", patch(known, replicas))
        if response.is_ok:
            return _parsed(response)
        found = problem(response.status, response.message())
        if found is Problem.CONFLICT:
            return None
        raise _failure(target, "patch", response, found)

    async def _send(self, target: Target, method: str, body: bytes = b"") -> ApiResponse:
        path = target.resource.scale_path(target.namespace, target.name)
        try:
            return await self._api.send(method, path, body, MERGE_PATCH if body else "")
        except ApiUnreachable as error:
            raise _Failed(Problem.UNAVAILABLE, str(error)) from error


def _parsed(response: ApiResponse) -> Scale:
    obj = response.decoded()
    if not isinstance(obj, dict):
        raise _Failed(Problem.UNAVAILABLE, "the response is no Scale object")
    try:
        return parse(obj)
    except ManifestError as error:
        raise _Failed(Problem.UNAVAILABLE, str(error)) from error


def _failure(target: Target, verb: str, response: ApiResponse, found: Problem) -> _Failed:
    detail = f"{response.status}: {response.message()}"
    if found is Problem.FORBIDDEN:
        # A forbidden GET hides whether PATCH is allowed: the rule allows both.
        verbs = VERBS if verb == "get" else (verb,)
        detail = f"{detail}; the ClusterRole lacks {missing_rule(target.resource, *verbs)}"
    elif response.status == 401:
        detail += "; the API server does not accept the token of the scaler's ServiceAccount"
    elif found is Problem.MISSING:
        detail = f"{target} does not exist, or has no scale subresource ({detail})"
    return _Failed(found, detail)
