"""Looks up kinds, and checks the rights to scale them, before the first request needs them.

Sources: APIResourceList and SelfSubjectAccessReview in the Kubernetes API reference.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final, NamedTuple

from activator.objects.fields import Field, ManifestError, root
from activator.plain.annotations import Target as Wanted
from activator.scale.cluster.api import Api, ApiResponse, ApiUnreachable
from activator.scale.workloads.actuator import Target
from activator.scale.workloads.subresource import VERBS, Resource, missing_rule

logger = logging.getLogger(__name__)

#: Seconds until a failed look-up, or a missing right, is checked again.
AGAIN: Final = 30.0

_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class Verdict(NamedTuple):
    """The result of a check.

    Attributes:
        problem: for people; empty if everything is well.
        at: when it was made, on the caller's clock.
    """

    problem: str
    at: float


class KindOf(NamedTuple):
    """A kind to look up."""

    group: str
    version: str
    kind: str

    @classmethod
    def of(cls, wanted: Wanted) -> KindOf:
        """Return the kind of an annotation."""
        return cls(wanted.group, wanted.version, wanted.kind)


class Rights:
    """Looks up kinds and rights; each result is kept.

    Arguments:
        api: sends the requests.
        start: starts a coroutine as a task.
        clock: seconds, monotonic.
        changed: called after a result that may change a Service, with the namespace of these
            Services; empty for all.
    """

    def __init__(
        self,
        api: Api,
        start: Callable[[Coroutine[Any, Any, None]], object],
        clock: Callable[[], float],
        changed: Callable[[str], object],
    ) -> None:
        self._api = api
        self._start = start
        self._clock = clock
        self._changed = changed
        self._kinds: dict[KindOf, Resource] = {}
        self._unknown: dict[KindOf, Verdict] = {}
        self._rights: dict[tuple[Resource, str], Verdict] = {}
        self._pending: set[object] = set()

    def resource(self, wanted: Wanted) -> Resource | str | None:
        """Return the kind of a target with its plural.

        Returns:
            A text if the API server does not have the kind; None while that is not known.
        """
        kind = KindOf.of(wanted)
        if kind in self._kinds:
            return self._kinds[kind]
        known = self._unknown.get(kind)
        if known is None or self._is_old(known):
            self._once(kind, self._look_up(kind))
        return None if known is None else known.problem

    def problem(self, target: Target) -> str:
        """Return why the workload cannot be scaled; empty if it can, or if that is not known.

        If the API server allows it in all namespaces, one check is enough for all targets.
        """
        everywhere = self._verdict(target.resource, "")
        if everywhere is None or not everywhere.problem:
            return ""
        here = self._verdict(target.resource, target.namespace)
        return "" if here is None else here.problem

    def granted(self, target: Target) -> None:
        """Record that a workload was scaled, which no check needs to confirm."""
        self._rights[target.resource, target.namespace] = Verdict("", self._clock())

    def _verdict(self, resource: Resource, namespace: str) -> Verdict | None:
        """Return the last result, and check again if there is none, or if rights were missing."""
        key = resource, namespace
        known = self._rights.get(key)
        if known is None or (known.problem and self._is_old(known)):
            self._once(key, self._review(resource, namespace))
        return known

    def _is_old(self, verdict: Verdict) -> bool:
        return self._clock() - verdict.at >= AGAIN

    def _once(self, key: object, work: Coroutine[Any, Any, None]) -> None:
        if key in self._pending:
            work.close()
            return
        self._pending.add(key)
        self._start(self._run(key, work))

    async def _run(self, key: object, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except ApiUnreachable as error:
            logger.debug("%s: %s", key, error)
        finally:
            self._pending.discard(key)

    async def _look_up(self, kind: KindOf) -> None:
        response = await self._api.send("GET", f"/apis/{kind.group}/{kind.version}")
        text = f"{kind.group}/{kind.version}"
        if response.is_ok:
            try:
                resource = _resource(response, kind)
            except ManifestError as error:
                resource = str(error)
        elif response.status == 404:
            resource = f"the API server has no API {text}; is its CustomResourceDefinition there?"
        else:
            resource = f"{text}: {response.status}: {response.message()}"
        if isinstance(resource, Resource):
            self._kinds[kind] = resource
        else:
            self._unknown[kind] = Verdict(resource, self._clock())
        self._changed("")

    async def _review(self, resource: Resource, namespace: str) -> None:
        missing = []
        for verb in VERBS:
            attributes = {
                "namespace": namespace,
                "verb": verb,
                "group": resource.group,
                "resource": resource.plural,
                "subresource": "scale",
            }
            body = {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": attributes},
            }
            response = await self._api.send("POST", _REVIEWS, json.dumps(body).encode())
            if not response.is_ok:
                # The scaler works without the check: the first PATCH shows a missing right.
                logger.debug("no check of rights: %s", response.message())
                continue
            if not _is_allowed(response):
                missing.append(verb)
        problem = ""
        if missing:
            where = f"in namespace {namespace}" if namespace else "in all namespaces"
            rule = missing_rule(resource, *missing)
            problem = f"the scaler may not scale {resource.plural} {where}; its role lacks {rule}"
        before = self._rights.get((resource, namespace))
        self._rights[resource, namespace] = Verdict(problem, self._clock())
        if problem or (before is not None and before.problem):
            self._changed(namespace)


def _resource(response: ApiResponse, kind: KindOf) -> Resource | str:
    listed = root(response.decoded(), "APIResourceList")["resources"]
    names = {(entry["kind"].text().lower(), entry["name"].text()) for entry in listed.items()}
    wanted = kind.kind.lower()
    plurals = sorted(name for found, name in names if found == wanted and "/" not in name)
    if not plurals:
        return f"{kind.group}/{kind.version} has no kind {kind.kind}"
    if not any(name == f"{plurals[0]}/scale" for _, name in names):
        return f"{kind.kind} of {kind.group}/{kind.version} has no scale subresource"
    return Resource(kind.group, kind.version, kind.kind, plurals[0])


def _is_allowed(response: ApiResponse) -> bool:
    status: Field = root(response.decoded(), "SelfSubjectAccessReview")["status"]
    return status["allowed"].boolean(default=False)
