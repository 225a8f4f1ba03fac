"""Defines a waker: what it must know of a workload, and the rules of RBAC that it needs.

A waker is a value: the way to put a workload to sleep and to wake it, with the words of the
annotations. ``Actuator`` has the loop, conflicts and problems of all wakers; ``table`` has all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, NamedTuple, TypeVar

from activator.discovery.api_server import MERGE_PATCH, ApiResponse, ApiServer, Meaning
from activator.scale.reasons import ScaleReason

if TYPE_CHECKING:
    from activator.scale.workloads.replicas import ScalableKind, ScaleTarget

#: What a failed request means for the workload.
_PROBLEMS: Final = {
    Meaning.CONFLICT: ScaleReason.CONFLICT,
    Meaning.ABSENT: ScaleReason.SCALE_TARGET_MISSING,
    Meaning.UNAVAILABLE: ScaleReason.API_SERVER_UNAVAILABLE,
    Meaning.FORBIDDEN: ScaleReason.SCALE_FORBIDDEN,
    Meaning.REFUSED: ScaleReason.SCALE_REFUSED,
}


class Rule(NamedTuple):
    """A rule of RBAC.

    Attributes:
        resource: plural, perhaps with a subresource, as in ``deployments/scale``.
        purpose: what it allows, as in ``scale deployments``; empty where no text needs it.
    """

    group: str
    resource: str
    verbs: tuple[str, ...]
    purpose: str = ""

    def lacking(self, *verbs: str) -> str:
        """Return the rule with some of its verbs, by default all, in YAML on one line."""
        listed = ", ".join(f'"{verb}"' for verb in verbs or self.verbs)
        return f'{{apiGroups: ["{self.group}"], resources: ["{self.resource}"], verbs: [{listed}]}}'

    def problem(self, response: ApiResponse, verbs: Sequence[str] = ()) -> str:
        """Return why a request failed that needs the rule; empty if it did not.

        Arguments:
            verbs: the ones that may be missing; by default all.
        """
        text = response.problem
        if response.meaning is Meaning.FORBIDDEN:
            text += f"; the ClusterRole lacks {self.lacking(*verbs)}"
        return text


#: What the asleep mark needs.
MARK_RULE: Final = Rule("", "services", ("patch",), "mark services")


@dataclass(frozen=True, slots=True)
class State:
    """A workload as its waker sees it.

    Attributes:
        replicas: how many it asks for; 0 while it sleeps.
        waits_for: why it does not count as awake yet; empty if it does, or sleeps.
        instead: why it sleeps in another way than its waker's; empty if it does not.
    """

    replicas: int
    waits_for: str = field(default="", kw_only=True)
    instead: str = field(default="", kw_only=True)


class Access(NamedTuple):
    """What a waker may use.

    Attributes:
        api: sends requests to the API server.
        hosts: the ones that the waker ``http`` may call beside Services of the namespace.
        calls: bounds the calls of the waker ``http``, for each namespace: silent servers of one
            must not keep another one waiting.
    """

    api: ApiServer
    hosts: Collection[str]
    calls: Mapping[str, asyncio.Semaphore]


class WakerFailed(Exception):
    """A workload could not be read or changed: it is as it was, or unknown.

    Attributes:
        problem: as of a ``Result``, whose detail is the text.
    """

    def __init__(self, problem: ScaleReason, detail: str) -> None:
        super().__init__(detail)
        self.problem = problem


S = TypeVar("S", bound=State)


class Waker(Generic[S]):
    """One way to put a workload to sleep. A subclass is hashable, and equal if its words are.

    Attributes:
        marks: whether the Service has the asleep mark while its workload sleeps.
        parks: whether Kubernetes lists the pods as ready while they sleep.
        frees: 1 or 0 for each: whether sleep frees pods, their CPU, and their memory.
        is_binary: whether the workload is only asleep or awake: 0 or 1 replicas.
        lacks: for people: what else it means that the API server does not find the object.
    """

    marks: ClassVar[bool] = True
    parks: ClassVar[bool] = False
    frees: ClassVar[tuple[int, int, int]] = 1, 1, 1
    is_binary: ClassVar[bool] = True
    lacks: ClassVar[str] = ""

    def rules(self, kind: ScalableKind) -> Sequence[Rule]:
        """Return the rules of RBAC that it needs for a kind, without the one of the mark."""
        raise NotImplementedError

    async def read(self, access: Access, target: ScaleTarget) -> S:
        """Return the state of a workload.

        Raises:
            WakerFailed, ManifestError: it is not known.
        """
        raise NotImplementedError

    async def write(self, access: Access, target: ScaleTarget, known: S, replicas: int) -> S | None:
        """Ask for replicas: 0 puts the workload to sleep. It repeats no change that is made.

        Arguments:
            known: the result of ``read``: with other replicas, or with ``waits_for``.

        Returns:
            The new state; None if the object has changed since ``read``. The caller reads the
            state until it has no ``waits_for``.

        Raises:
            WakerFailed, ManifestError: nothing was changed, or that is unknown.
        """
        raise NotImplementedError


async def get(api: ApiServer, target: ScaleTarget, path: str, rule: Rule) -> object:
    """Return an object as decoded from JSON, or a list.

    Arguments:
        target: the workload that it belongs to.
        rule: the request needs it.

    Raises:
        WakerFailed: the API server does not give it.
    """
    response = await api.send("GET", path)
    if not response.is_ok:
        raise failure(target, response, rule)
    return response.decoded()


async def send_patch(
    api: ApiServer, target: ScaleTarget, path: str, body: bytes, rule: Rule
) -> ApiResponse | None:
    """Change an object by a merge patch; return the response, or None if it has changed meanwhile.

    Arguments:
        target, rule: as for ``get``.

    Raises:
        WakerFailed: the API server does not change it, or does not respond.
    """
    response = await api.send("PATCH", path, body, MERGE_PATCH)
    if response.meaning is Meaning.CONFLICT:
        return None
    if not response.is_ok:
        raise failure(target, response, rule, ("patch",))
    return response


def failure(
    target: ScaleTarget, response: ApiResponse, rule: Rule, verbs: Sequence[str] = ()
) -> WakerFailed:
    """Return the failure of a request.

    Arguments:
        rule: the request needs it.
        verbs: as for ``Rule.problem``. A forbidden GET hides whether PATCH is allowed.
    """
    found, detail = _PROBLEMS[response.meaning], rule.problem(response, verbs)
    if response.status == 401:
        detail += "; the API server does not accept the token of the scaler's ServiceAccount"
    elif found is ScaleReason.SCALE_TARGET_MISSING:
        detail = f"{target} does not exist{target.waker.lacks} ({detail})"
    return WakerFailed(found, detail)


#: Any waker: the state is between its own methods.
AnyWaker = Waker[Any]
