"""The load-balancing policies by name: the table for annotations, the admin API and docs.

To add a policy, write its module and add its row. Knative's counterpart: the choice by
containerConcurrency in newRevisionThrottler of pkg/activator/net/throttler.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from throttler.lb_policy import (
    FirstAvailable,
    LeastLoaded,
    PeakEwma,
    Policy,
    RandomChoice2,
    RoundRobin,
)
from throttler.model import AdaptiveMode, HashKey, KeyKind, Revision
from throttler.rendezvous import Rendezvous, Sticky

#: Up to this containerConcurrency, requests fill one pod before the next (Knative: 3).
FIRST_AVAILABLE_UP_TO: Final = 3

_Random = Callable[[], float]


class PolicyRow(NamedTuple):
    """One policy.

    Attributes:
        make: return a new policy. Its arguments are the revision's default policy, which picks for
            requests without a key, and a function that returns random numbers in [0, 1).
        wants_key: whether the policy picks by a part of the request, so that it needs a
            ``HashKey``.
    """

    make: Callable[[Policy, _Random], Policy]
    wants_key: bool = False


#: Every policy that a revision can have.
POLICIES: Final[Mapping[str, PolicyRow]] = {
    "first-available": PolicyRow(lambda default, random: FirstAvailable()),
    "round-robin": PolicyRow(lambda default, random: RoundRobin()),
    "random-choice-2": PolicyRow(lambda default, random: RandomChoice2(random)),
    "least-loaded": PolicyRow(lambda default, random: LeastLoaded()),
    "ewma-latency": PolicyRow(lambda default, random: PeakEwma(random)),
    "hash": PolicyRow(lambda default, random: Rendezvous(default), wants_key=True),
}
#: The default policies themselves never use the first argument of ``make``.
_UNUSED: Final = FirstAvailable()


def policy_name(revision: Revision) -> str:
    """Return the name of a revision's policy: the annotation, else Knative's choice."""
    return revision.policies.load_balancing or _default_name(revision.container_concurrency)


def policy_for(revision: Revision, random: _Random) -> Policy:
    """Return a new policy for a revision; see ``sticky_for`` for the one that goes before it.

    Arguments:
        random: returns random numbers in [0, 1).
    """
    default_name, name = _default_name(revision.container_concurrency), policy_name(revision)
    default = POLICIES[default_name].make(_UNUSED, random)
    return default if name == default_name else POLICIES[name].make(default, random)


def sticky_for(revision: Revision, policy: Policy) -> Sticky | None:
    """Return a revision's sticky policy; None if its requests are not sticky.

    Arguments:
        policy: picks for requests without a key.
    """
    policies = revision.policies
    if policies.sticky is None:
        return None
    by_token = policies.sticky.kind is KeyKind.COOKIE
    return Sticky(policy, policies.sticky_overflow, by_token=by_token)


def key_for(revision: Revision) -> HashKey | None:
    """Return the part of a request that a revision's policy uses as its key; None for none."""
    policies = revision.policies
    if policies.sticky is not None:
        return policies.sticky
    return policies.hash_key if POLICIES[policy_name(revision)].wants_key else None


def adaptive_mode(revision: Revision) -> AdaptiveMode:
    """Return whether responses limit a revision's pods: never with a containerConcurrency."""
    return AdaptiveMode.OFF if revision.container_concurrency else revision.policies.adaptive


def _default_name(container_concurrency: int) -> str:
    if container_concurrency == 0:
        return "random-choice-2"
    return "first-available" if container_concurrency <= FIRST_AVAILABLE_UP_TO else "round-robin"
