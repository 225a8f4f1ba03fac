"""The waker ``patch``: one merge patch of an object puts it to sleep, another one wakes it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from activator.objects.fields import Field, root
from activator.plain.annotations import PREFIX, NamedCondition, WakerWords
from activator.plain.service import PlainService
from activator.scale.wakers.waker import Access, Rule, State, Waker, get, send_patch

if TYPE_CHECKING:
    from activator.scale.workloads.replicas import ScalableKind, ScaleTarget

_BOTH: Final = f"{PREFIX}sleep-patch and {PREFIX}wake-patch"


@dataclass(frozen=True, slots=True)
class Patched(State):
    """An object; ``has_wake_patch`` is whether that patch would change nothing."""

    uid: str
    has_wake_patch: bool


@dataclass(frozen=True, slots=True)
class PatchWaker(Waker[Patched]):
    """Patches an object, which sleeps as long as it has all values of the sleep patch.

    Attributes:
        sleep, wake: the patches, as JSON.
        condition: what the object must show after the wake patch; None for nothing.
    """

    sleep: str
    wake: str
    condition: NamedCondition | None = None

    def rules(self, kind: ScalableKind) -> Sequence[Rule]:
        return (Rule(kind.group, kind.plural, ("get", "patch"), f"patch {kind.plural}"),)

    async def read(self, access: Access, target: ScaleTarget) -> Patched:
        obj = await get(access.api, target, target.path, self.rules(target.resource)[0])
        return self._state(target, obj)

    async def write(
        self, access: Access, target: ScaleTarget, known: Patched, replicas: int
    ) -> Patched | None:
        if replicas and known.has_wake_patch:
            return known
        patch = json.loads(self.wake if replicas else self.sleep)
        # With the version, each change of the status would be a conflict: some are 100 a second.
        metadata = {**patch.get("metadata", {}), "uid": known.uid}
        body = json.dumps({**patch, "metadata": metadata}).encode()
        rule = self.rules(target.resource)[0]
        response = await send_patch(access.api, target, target.path, body, rule)
        return self._state(target, response.decoded()) if response is not None else None

    def _state(self, target: ScaleTarget, obj: object) -> Patched:
        found = root(obj, target.resource.kind)
        uid = found["metadata"]["uid"].text()
        sleeps = holds(json.loads(self.sleep), found.value)
        waits_for = "" if sleeps else self._waits_for(found["status"])
        has_wake_patch = holds(json.loads(self.wake), found.value)
        return Patched(0 if sleeps else 1, uid, has_wake_patch, waits_for=waits_for)

    def _waits_for(self, status: Field) -> str:
        """Return why the object is not confirmed as awake; empty if it is."""
        if self.condition is None:
            return ""
        known = {each["type"].text(): each for each in status["conditions"].items()}
        one = known.get(self.condition.type, Field({}, "", ""))
        found, message = one["status"].text() or "missing", one["message"].text()
        if found == self.condition.status:
            return ""
        text = f"condition {self.condition.type} is {found}, not {self.condition.status}"
        return f"{text}: {message}" if message else text


def holds(patch: Any, value: object) -> bool:
    """Return whether a merge patch would not change a value (RFC 7396)."""
    if not isinstance(patch, dict):
        return bool(patch == value) and isinstance(patch, bool) == isinstance(value, bool)
    if not isinstance(value, dict):
        return False
    return all(
        value.get(name) is None if each is None else holds(each, value.get(name))
        for name, each in patch.items()
    )


def _undoes(wake: Any, sleep: Any) -> bool:
    """Return whether a patch changes a value that another patch has set."""
    if not (isinstance(wake, dict) and isinstance(sleep, dict)):
        return bool(wake != sleep)
    return any(_undoes(wake[name], each) for name, each in sleep.items() if name in wake)


def make(words: WakerWords, service: PlainService) -> PatchWaker | str:
    """Return the waker of these words, or why there is none."""
    if not (words.sleep_patch and words.wake_patch):
        return f"waker patch needs the annotations {_BOTH}"
    if not _undoes(json.loads(words.wake_patch), json.loads(words.sleep_patch)):
        return (
            f"{PREFIX}wake-patch changes no value that {PREFIX}sleep-patch sets, so the workload "
            f"would not wake"
        )
    return PatchWaker(words.sleep_patch, words.wake_patch, words.awake_condition)
