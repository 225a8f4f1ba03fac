"""Decides which failures count: a request is lost unless the death of its own pod excuses it.

Pure: no clock, no process. Times are seconds of CLOCK_MONOTONIC, which all processes share.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.mixed.kinds import ALL_KINDS, Excuse

#: Seconds after a kill in which a request may still be written to a connection of the dead pod.
NOTICED_AFTER: Final = 0.1


@dataclass(frozen=True, slots=True)
class Failure:
    """A request that did not end well.

    Attributes:
        kind: a key of `KINDS`.
        pod: the pod that began a response; empty before that.
        sent, ended: when the client began, and when it noticed the failure.
        what: the status or the error.
        wrong: the response was complete and false. Nothing excuses that.
        via: the addresses to which an ingress sent it; empty without an ingress.
        reason: the activator's reason in an error response; empty for none.
    """

    kind: str
    pod: str
    sent: float
    ended: float
    what: str
    wrong: bool = False
    via: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Kill:
    """A pod that was killed; its name begins with its service.

    Attributes:
        began, ended: right before SIGKILL, and when the process was gone.
    """

    pod: str
    began: float
    ended: float


def excused(failure: Failure, kills: Iterable[Kill]) -> bool:
    """Return whether the death of its pod excuses a failure."""
    kind = ALL_KINDS[failure.kind]
    needs_pod = kind.excuse in (Excuse.RESPONSE_BEGUN, Excuse.LIED)
    if failure.wrong or (needs_pod and not failure.pod):
        return False
    return any(
        _is_of(kill, failure.pod, kind.service)
        and failure.sent <= kill.ended + NOTICED_AFTER
        and failure.ended >= kill.began
        for kill in kills
    )


def _is_of(kill: Kill, pod: str, service: str) -> bool:
    return kill.pod == pod if pod else kill.pod.startswith(f"{service}-")


def lost(failures: Iterable[Failure], kills: Sequence[Kill]) -> list[Failure]:
    """Return the failures that nothing excuses."""
    return [failure for failure in failures if not excused(failure, kills)]
