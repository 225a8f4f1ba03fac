"""Changes the replicas of workloads by their scale subresource, and checks the rights to do so.

Rights and kinds are looked up before the first request needs them. Sources: autoscaling/v1 Scale,
APIResourceList and SelfSubjectAccessReview in the Kubernetes API reference; the texts and statuses
were seen on API server 1.36.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from activator.discovery.api_server import (
    MERGE_PATCH,
    ApiResponse,
    ApiServer,
    ApiUnreachable,
    Meaning,
)
from activator.objects.fields import Field, ManifestError, root
from activator.plain.annotations import NamedTarget as Wanted
from activator.scale.cluster.api import KeyedWriter, Start
from activator.scale.reasons import ScaleReason

logger = logging.getLogger(__name__)

#: What a role must allow: the scaler reads the subresource before it changes it.
VERBS: Final = ("get", "patch")
MOST_REPLICAS: Final = 2**31 - 1
#: Attempts against other writers of the same object, one after the other.
ATTEMPTS: Final = 5
#: Seconds until a failed look-up, or a missing right, is checked again.
AGAIN: Final = 30.0

_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

#: What a failed request means for the workload.
_PROBLEMS: Final = {
    Meaning.CONFLICT: ScaleReason.CONFLICT,
    Meaning.ABSENT: ScaleReason.SCALE_TARGET_MISSING,
    Meaning.UNAVAILABLE: ScaleReason.API_SERVER_UNAVAILABLE,
    Meaning.FORBIDDEN: ScaleReason.SCALE_FORBIDDEN,
    Meaning.REFUSED: ScaleReason.SCALE_REFUSED,
}
#: The API server refuses a change, though it may allow reads.
REFUSALS: Final = frozenset({ScaleReason.SCALE_FORBIDDEN, ScaleReason.SCALE_REFUSED})


class ScalableKind(NamedTuple):
    """A kind of objects with a ``scale`` subresource; ``plural`` as in API paths."""

    group: str
    version: str
    kind: str
    plural: str

    def scale_path(self, namespace: str, name: str) -> str:
        """Return the path of an object's subresource."""
        root_path = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        return f"{root_path}/namespaces/{namespace}/{self.plural}/{name}/scale"


#: The kinds that need no discovery.
KNOWN: Final = {
    "deployment": ScalableKind("apps", "v1", "Deployment", "deployments"),
    "statefulset": ScalableKind("apps", "v1", "StatefulSet", "statefulsets"),
    "replicaset": ScalableKind("apps", "v1", "ReplicaSet", "replicasets"),
    "replicationcontroller": ScalableKind(
        "", "v1", "ReplicationController", "replicationcontrollers"
    ),
}


class Scale(NamedTuple):
    """A Scale object.

    Attributes:
        replicas: ``spec.replicas``; an absent field is 0.
        version, uid: resourceVersion and uid of the scaled object; a PATCH must send both.
    """

    replicas: int
    version: str
    uid: str

    @classmethod
    def of(cls, obj: object) -> Scale:
        """Return a Scale object's fields.

        Raises:
            ManifestError: a field is wrong.
        """
        scale = root(obj, "Scale")
        return cls(
            scale["spec"]["replicas"].whole(minimum=0, maximum=MOST_REPLICAS, default=0),
            scale["metadata"]["resourceVersion"].text(),
            scale["metadata"]["uid"].text(),
        )

    def patch(self, replicas: int) -> bytes:
        """Return the body of a PATCH, which fails with 409 if the object has changed meanwhile."""
        metadata = {"resourceVersion": self.version, "uid": self.uid}
        wanted = {
            "metadata": {name: value for name, value in metadata.items() if value},
            "spec": {"replicas": replicas},
        }
        return json.dumps(wanted, separators=(",", ":")).encode()


def missing_rule(resource: ScalableKind, *verbs: str) -> str:
    """Return the RBAC rule that forbidden requests lack, in YAML on one line."""
    listed = ", ".join(f'"{verb}"' for verb in verbs)
    return (
        f'{{apiGroups: ["{resource.group}"], resources: ["{resource.plural}/scale"], '
        f"verbs: [{listed}]}}"
    )


class ScaleTarget(NamedTuple):
    """An object whose replicas are changed."""

    resource: ScalableKind
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
    problem: ScaleReason | None = None
    detail: str = ""
    changed_from: int | None = None


class _Failed(Exception):
    def __init__(self, found: ScaleReason, detail: str) -> None:
        super().__init__(detail)
        self.result = Result(None, found, detail)


class Actuator(KeyedWriter[ScaleTarget, Wish | None]):
    """Changes the replicas of workloads, and reads them for the wish None.

    A wish names the replicas that it is about. If the workload has others meanwhile, nothing is
    written, and the caller decides again. Knative's counterpart: applyScale in
    pkg/reconciler/autoscaling/kpa/scaler.go.

    Arguments:
        api: sends the requests.
        start: starts a coroutine as a task.
        report: called with the result of each wish.
    """

    def __init__(
        self, api: ApiServer, start: Start, report: Callable[[ScaleTarget, Result], None]
    ) -> None:
        super().__init__(start, self._change)
        self._api = api
        self._report = report

    async def _change(self, target: ScaleTarget, wish: Wish | None) -> None:
        try:
            result = await self._result(target, wish)
        except _Failed as failed:
            result = failed.result
        self._report(target, result)

    async def _result(self, target: ScaleTarget, wish: Wish | None) -> Result:
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
        detail = f"other components changed it {ATTEMPTS} times"
        return Result(None, ScaleReason.CONFLICT, detail)

    async def _read(self, target: ScaleTarget) -> Scale | None:
        """Return the replicas; None for an object that has never had any."""
        response = await self._send(target, "GET")
        if response.is_ok:
            return _parsed(response.decoded())
        if _is_unset(response):
            return None
        raise _failure(target, response, VERBS)

    async def _write(self, target: ScaleTarget, known: Scale, replicas: int) -> Scale | None:
        """Return the new replicas; None if the object has changed meanwhile."""
        response = await self._send(target, "PATCH", known.patch(replicas))
        if response.is_ok:
            return _parsed(response.decoded())
        if response.meaning is Meaning.CONFLICT:
            return None
        raise _failure(target, response, ("patch",))

    async def _send(self, target: ScaleTarget, method: str, body: bytes = b"") -> ApiResponse:
        path = target.resource.scale_path(target.namespace, target.name)
        try:
            return await self._api.send(method, path, body, MERGE_PATCH if body else "")
        except ApiUnreachable as error:
            raise _Failed(ScaleReason.API_SERVER_UNAVAILABLE, str(error)) from error


def _is_unset(response: ApiResponse) -> bool:
    """Return whether an object has no replicas yet: a PATCH without a version sets them."""
    message = response.message()
    return (
        response.status == 500 and "spec replicas field" in message and "does not exist" in message
    )


def _parsed(obj: object) -> Scale:
    if not isinstance(obj, dict):
        raise _Failed(ScaleReason.API_SERVER_UNAVAILABLE, "the response is no Scale object")
    try:
        return Scale.of(obj)
    except ManifestError as error:
        raise _Failed(ScaleReason.API_SERVER_UNAVAILABLE, str(error)) from error


def _failure(target: ScaleTarget, response: ApiResponse, verbs: Sequence[str]) -> _Failed:
    """Return the failure of a request.

    Arguments:
        verbs: the rights that may be missing. A forbidden GET hides whether PATCH is allowed.
    """
    found = _PROBLEMS[response.meaning]
    detail = f"{response.status}: {response.message()}"
    if found is ScaleReason.SCALE_FORBIDDEN:
        detail = f"{detail}; the ClusterRole lacks {missing_rule(target.resource, *verbs)}"
    elif response.status == 401:
        detail += "; the API server does not accept the token of the scaler's ServiceAccount"
    elif found is ScaleReason.SCALE_TARGET_MISSING:
        detail = f"{target} does not exist, or has no scale subresource ({detail})"
    return _Failed(found, detail)


class RightsCheck(NamedTuple):
    """The result of a check.

    Attributes:
        problem: for people; empty if everything is well.
        at: when it was made, on the caller's clock.
    """

    problem: str
    at: float


class Rights:
    """Looks up kinds and rights; each result is kept.

    A kind to look up is a target without a name.

    Arguments:
        api: sends the requests.
        start: starts a coroutine as a task.
        changed: called after a result that may change a Service, with the namespace of these
            Services; empty for all.
    """

    def __init__(self, api: ApiServer, start: Start, changed: Callable[[str], object]) -> None:
        self._api = api
        self._clock = asyncio.get_running_loop().time
        self._changed = changed
        self._kinds: dict[Wanted, ScalableKind] = {}
        self._unknown: dict[Wanted, RightsCheck] = {}
        self._rights: dict[tuple[ScalableKind, str], RightsCheck] = {}
        self._checks = KeyedWriter[Wanted | tuple[ScalableKind, str], None](start, self._carry_out)

    def resource(self, wanted: Wanted) -> ScalableKind | str | None:
        """Return the kind of a target with its plural.

        Returns:
            A text if the API server does not have the kind; None while that is not known.
        """
        kind = wanted._replace(name="")
        if kind in self._kinds:
            return self._kinds[kind]
        known = self._unknown.get(kind)
        if known is None or self._is_old(known):
            self._checks.read(kind, None)
        return None if known is None else known.problem

    def problem(self, target: ScaleTarget) -> str:
        """Return why the workload cannot be scaled; empty if it can, or if that is not known.

        If the API server allows it in all namespaces, one check is enough for all targets.
        """
        everywhere = self._verdict(target.resource, "")
        if everywhere is None or not everywhere.problem:
            return ""
        here = self._verdict(target.resource, target.namespace)
        return "" if here is None else here.problem

    def granted(self, target: ScaleTarget) -> None:
        """Record that a workload was scaled, which no check needs to confirm."""
        self._rights[target.resource, target.namespace] = RightsCheck("", self._clock())

    def _verdict(self, resource: ScalableKind, namespace: str) -> RightsCheck | None:
        """Return the last result, and check again if there is none, or if rights were missing."""
        key = resource, namespace
        known = self._rights.get(key)
        if known is None or (known.problem and self._is_old(known)):
            self._checks.read(key, None)
        return known

    def _is_old(self, verdict: RightsCheck) -> bool:
        return self._clock() - verdict.at >= AGAIN

    async def _carry_out(self, key: Wanted | tuple[ScalableKind, str], _: None) -> None:
        try:
            await (self._look_up(key) if isinstance(key, Wanted) else self._review(*key))
        except ApiUnreachable as error:
            logger.debug("%s: %s", key, error)

    async def _look_up(self, kind: Wanted) -> None:
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
        if isinstance(resource, ScalableKind):
            self._kinds[kind] = resource
        else:
            self._unknown[kind] = RightsCheck(resource, self._clock())
        self._changed("")

    async def _review(self, resource: ScalableKind, namespace: str) -> None:
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
        self._rights[resource, namespace] = RightsCheck(problem, self._clock())
        if problem or (before is not None and before.problem):
            self._changed(namespace)


def _resource(response: ApiResponse, kind: Wanted) -> ScalableKind | str:
    listed = root(response.decoded(), "APIResourceList")["resources"]
    names = {(entry["kind"].text().lower(), entry["name"].text()) for entry in listed.items()}
    wanted = kind.kind.lower()
    plurals = sorted(name for found, name in names if found == wanted and "/" not in name)
    if not plurals:
        return f"{kind.group}/{kind.version} has no kind {kind.kind}"
    if not any(name == f"{plurals[0]}/scale" for _, name in names):
        return f"{kind.kind} of {kind.group}/{kind.version} has no scale subresource"
    return ScalableKind(kind.group, kind.version, kind.kind, plurals[0])


def _is_allowed(response: ApiResponse) -> bool:
    status: Field = root(response.decoded(), "SelfSubjectAccessReview")["status"]
    return status["allowed"].boolean(default=False)
