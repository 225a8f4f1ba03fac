"""Changes the replicas of workloads by their wakers, and checks the rights to do so.

Rights and kinds are looked up before the first request needs them. Sources: APIResourceList and
SelfSubjectAccessReview in the Kubernetes API reference.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache, partial
from typing import Final, NamedTuple

from activator.discovery.api_server import ApiResponse, ApiServer
from activator.kpa.decision import Why
from activator.objects.fields import ManifestError, root
from activator.plain.annotations import NamedTarget as Wanted
from activator.scale.cluster.api import KeyedWriter, Start
from activator.scale.reasons import ScaleReason
from activator.scale.wakers.scale import SCALE
from activator.scale.wakers.waker import MARK_RULE, Access, AnyWaker, Rule, State, WakerFailed

logger = logging.getLogger(__name__)

#: Attempts against other writers of the same object, one after the other.
ATTEMPTS: Final = 5
#: Seconds in which a workload usually confirms that it is awake; a longer time needs a reason.
CONFIRM: Final = 10.0
#: Seconds between two reads of a workload that wakes: at first, and at most.
FIRST_POLL, LAST_POLL = 0.02, 1.0
#: Calls of the waker ``http`` at a time, of one namespace.
MOST_CALLS: Final = 16
#: Seconds until a failed look-up, or a missing right, is checked again.
AGAIN: Final = 30.0

_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_REVIEW: Final = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}

#: The API server refuses a change, though it may allow reads.
REFUSALS: Final = frozenset({ScaleReason.SCALE_FORBIDDEN, ScaleReason.SCALE_REFUSED})


class ScalableKind(NamedTuple):
    """A kind of objects that can sleep.

    Attributes:
        plural: as in API paths.
        has_scale: whether it has a ``scale`` subresource.
    """

    group: str
    version: str
    kind: str
    plural: str
    has_scale: bool = True


#: The kinds that need no discovery.
KNOWN: Final = {
    "deployment": ScalableKind("apps", "v1", "Deployment", "deployments"),
    "statefulset": ScalableKind("apps", "v1", "StatefulSet", "statefulsets"),
    "replicaset": ScalableKind("apps", "v1", "ReplicaSet", "replicasets"),
    "replicationcontroller": ScalableKind(
        "", "v1", "ReplicationController", "replicationcontrollers"
    ),
}


class TargetRef(NamedTuple):
    """The identity of a workload, as ``scaleTargetRef`` has it; the version does not count."""

    namespace: str
    group: str
    kind: str
    name: str


class ScaleTarget(NamedTuple):
    """An object that sleeps and wakes.

    Attributes:
        waker: how it does.
    """

    resource: ScalableKind
    namespace: str
    name: str
    waker: AnyWaker = SCALE

    def __str__(self) -> str:
        return f"{self.resource.kind} {self.namespace}/{self.name}"

    @property
    def ref(self) -> TargetRef:
        """The identity of the object, whatever its waker is."""
        return TargetRef(self.namespace, self.resource.group, self.resource.kind, self.name)

    @property
    def path(self) -> str:
        """The path of the object at the API server."""
        group, version, _, plural, _ = self.resource
        root_path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        return f"{root_path}/namespaces/{self.namespace}/{plural}/{self.name}"


class Wish(NamedTuple):
    """A change of replicas.

    Attributes:
        known: the replicas that the decision was about.
        wanted: the replicas to ask for.
        why: the rule that wants them; None for that of the last plan.
    """

    known: int
    wanted: int
    why: Why | None = None


class Result(NamedTuple):
    """The result of a wish.

    Attributes:
        replicas: what the workload asks for now; None if that is unknown.
        problem: why the wish failed; None if it did not, or if the replicas had changed. A read
            has NOT_AWAKE_YET if the workload may still wake.
        detail: the problem for people: the server's text, and the remedy.
        changed_from: how many replicas there were before; None if the wish changed nothing.
        instead: as of a ``State``.
        why: as of the wish.
    """

    replicas: int | None
    problem: ScaleReason | None = None
    detail: str = ""
    changed_from: int | None = None
    instead: str = ""
    why: Why | None = None


class Actuator(KeyedWriter[ScaleTarget, Wish | None]):
    """Changes the replicas of workloads by their wakers, and reads them for the wish None.

    A wish names the replicas that it is about. If the workload has others meanwhile, nothing is
    written, and the caller decides again.

    Arguments:
        api: sends the requests.
        start: starts a coroutine as a task.
        report: called with the result of each wish.
        hosts: as for ``Access``.
    """

    def __init__(
        self,
        api: ApiServer,
        start: Start,
        report: Callable[[ScaleTarget, Result], None],
        hosts: Collection[str] = (),
    ) -> None:
        super().__init__(start, self._change)
        self._access = Access(api, hosts, defaultdict(partial(asyncio.Semaphore, MOST_CALLS)))
        self._report = report

    async def _change(self, target: ScaleTarget, wish: Wish | None) -> None:
        try:
            result = await self._result(target, wish)
        except WakerFailed as failed:
            result = Result(None, failed.problem, str(failed))
        except ManifestError as error:
            result = Result(None, ScaleReason.API_SERVER_UNAVAILABLE, str(error))
        self._report(target, result)

    async def _result(self, target: ScaleTarget, wish: Wish | None) -> Result:
        waker, access = target.waker, self._access
        for _ in range(ATTEMPTS):
            found = await waker.read(access, target)
            if wish is None:
                problem = ScaleReason.NOT_AWAKE_YET if found.waits_for else None
                return Result(found.replicas, problem, found.waits_for)
            is_waking = bool(wish.wanted and found.waits_for)
            if found.replicas != wish.known and not is_waking:
                return Result(found.replicas)
            state = await waker.write(access, target, found, wish.wanted)
            if state is not None:
                state = await self._awaited(target, state, wish)
                if not _is_settled(state, wish):
                    problem = ScaleReason.NOT_AWAKE_YET if wish.wanted else ScaleReason.WAKER_FAILED
                    detail = state.waits_for or _UNCHANGED[bool(wish.wanted)].format(CONFIRM)
                    return Result(wish.known, problem, detail)
                logger.debug("%s: %d -> %d replicas", target, wish.known, state.replicas)
                changed = Result(state.replicas, changed_from=wish.known, instead=state.instead)
                return changed._replace(why=wish.why)
        detail = f"other components changed it {ATTEMPTS} times"
        return Result(None, ScaleReason.CONFLICT, detail)

    async def _awaited(self, target: ScaleTarget, state: State, wish: Wish) -> State:
        """Return the state as soon as it is the wanted one, or after ``CONFIRM`` seconds."""
        clock, pause = asyncio.get_running_loop().time, FIRST_POLL
        end = clock() + CONFIRM
        while not _is_settled(state, wish) and clock() < end:
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, LAST_POLL)
            state = await target.waker.read(self._access, target)
        return state


#: What it means that the state is another one than the wanted one, asleep or awake.
_UNCHANGED: Final = (
    "it is still awake, {:g} s after it was asked to sleep",
    "it is still asleep, {:g} s after it was asked to wake",
)


def _is_settled(state: State, wish: Wish) -> bool:
    return not state.waits_for and bool(state.replicas) == bool(wish.wanted)


#: A kind to look up, as a target without a name; or a rule of RBAC in a namespace, empty for all.
_Subject = Wanted | tuple[Rule, str]


class Rights:
    """Looks up kinds and rights; each result is kept.

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
        # Each with the time of its look-up. A text is a problem for people; an empty one is none.
        self._known: dict[_Subject, tuple[ScalableKind | str, float]] = {}
        self._checks = KeyedWriter[_Subject, None](start, self._carry_out)

    def resource(self, wanted: Wanted) -> ScalableKind | str | None:
        """Return the kind of a target with its plural.

        Returns:
            A text if the API server does not have the kind; None while that is not known.
        """
        return self._found(wanted._replace(name=""))

    def problem(self, target: ScaleTarget) -> str:
        """Return why the workload cannot be scaled; empty if it can, or if that is not known.

        If the API server allows it in all namespaces, one check is enough for all targets.
        """
        marking = (MARK_RULE,) if target.waker.marks else ()
        for rule in (*_rules(target.waker, target.resource), *marking):
            problem = self._found((rule, "")) and self._found((rule, target.namespace))
            if isinstance(problem, str) and problem:
                return problem
        return ""

    def granted(self, target: ScaleTarget) -> None:
        """Record that a workload was scaled, which no check needs to confirm."""
        for rule in _rules(target.waker, target.resource):
            self._known[rule, target.namespace] = "", self._clock()

    def _found(self, subject: _Subject) -> ScalableKind | str | None:
        """Return the last result; look it up again if there is none, or if it was a problem."""
        found, at = self._known.get(subject, (None, float("-inf")))
        is_problem = isinstance(found, str) and found
        if found is None or (is_problem and self._clock() - at >= AGAIN):
            self._checks.read(subject, None)
        return found

    async def _carry_out(self, key: _Subject, _: None) -> None:
        await (self._look_up(key) if isinstance(key, Wanted) else self._review(*key))

    async def _look_up(self, kind: Wanted) -> None:
        response = await self._api.send("GET", f"/apis/{kind.group}/{kind.version}")
        text = f"{kind.group}/{kind.version}"
        if not response.status:
            logger.debug("%s: %s", text, response.problem)
            return  # the next wish asks again
        if response.is_ok:
            try:
                resource = _resource(response, kind)
            except ManifestError as error:
                resource = str(error)
        elif response.status == 404:
            resource = f"the API server has no API {text}; is its CustomResourceDefinition there?"
        else:
            resource = f"{text}: {response.problem}"
        self._known[kind] = resource, self._clock()
        self._changed("")

    async def _review(self, rule: Rule, namespace: str) -> None:
        missing = []
        resource, _, subresource = rule.resource.partition("/")
        what = {"group": rule.group, "resource": resource, "subresource": subresource}
        for verb in rule.verbs:
            attributes = {"namespace": namespace, "verb": verb, **what}
            body = {**_REVIEW, "spec": {"resourceAttributes": attributes}}
            response = await self._api.send("POST", _REVIEWS, json.dumps(body).encode())
            if not response.is_ok:
                # The scaler works without the check: the first PATCH shows a missing right.
                logger.debug("no check of rights: %s", response.message())
                if not response.status:
                    return  # the next look at the rule asks again
                continue
            status = root(response.decoded(), "SelfSubjectAccessReview")["status"]
            if not status["allowed"].boolean(default=False):
                missing.append(verb)
        problem = ""
        if missing:
            where = f"in namespace {namespace}" if namespace else "in all namespaces"
            lacking = rule.lacking(*missing)
            problem = f"the scaler may not {rule.purpose} {where}; its role lacks {lacking}"
        before, _ = self._known.get((rule, namespace), ("", 0.0))
        self._known[rule, namespace] = problem, self._clock()
        if problem or before:
            self._changed(namespace)


@lru_cache(maxsize=1024)
def _rules(waker: AnyWaker, kind: ScalableKind) -> Sequence[Rule]:
    """Return the rules of a waker; each renewal of a Service's facts needs them."""
    return waker.rules(kind)


def _resource(response: ApiResponse, kind: Wanted) -> ScalableKind | str:
    listed = root(response.decoded(), "APIResourceList")["resources"]
    names = {(entry["kind"].text().lower(), entry["name"].text()) for entry in listed.items()}
    wanted = kind.kind.lower()
    plurals = sorted(name for found, name in names if found == wanted and "/" not in name)
    if not plurals:
        return f"{kind.group}/{kind.version} has no kind {kind.kind}"
    has_scale = any(name == f"{plurals[0]}/scale" for _, name in names)
    return ScalableKind(kind.group, kind.version, kind.kind, plurals[0], has_scale)
