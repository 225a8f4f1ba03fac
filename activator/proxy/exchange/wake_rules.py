"""Decides whether a request may wake its revision, by the annotations of the revision.

Pure. Knative has no counterpart: there each request wakes its revision.
"""

from __future__ import annotations

from activator.proxy.message.request import Request
from throttler.request_policies import WaitMode, WakeRules, WhileWaiting
from throttler.revision import RevisionThrottler


def may_wake(rules: WakeRules, request: Request, method: bytes) -> bool:
    """Return whether a request may wait for a pod; each rule must allow it.

    Arguments:
        rules: the rules of the revision.
        request: the client's request.
        method: its method; of a peek, the method of the request that its page replaced.
    """
    return (
        (not rules.methods or method in rules.methods)
        and not _is_under(request.target, rules.not_paths)
        and not _is_from(request, rules.not_user_agents)
        and (not rules.required_header or _has(request, rules.required_header))
    )


def is_prefetch(waiting: WhileWaiting | None, request: Request) -> bool:
    """Return whether a browser loads a page in advance, of a service with a waiting page.

    Arguments:
        waiting: the policy of the revision; None without one.
        request: the client's request.
    """
    if waiting is None or WaitMode.PAGE not in waiting.modes:
        return False
    purpose = request.value_of(b"sec-purpose") or request.value_of(b"purpose")
    return purpose.lower().startswith(b"prefetch")


def is_awake(throttler: RevisionThrottler) -> bool:
    """Return whether any pod of a revision is usable, also if each one is busy; O(1)."""
    return bool(throttler.slots.pods)


def _is_under(target: bytes, paths: tuple[bytes, ...]) -> bool:
    """Return whether the path of a target is one of some paths, or below it."""
    # A loop: mypyc has no quick form of startswith with a tuple.
    for path in paths:
        if target.startswith(path):
            end = len(path)
            if path[-1:] == b"/" or target[end : end + 1] in (b"", b"/", b"?"):
                return True
    return False


def _is_from(request: Request, agents: tuple[bytes, ...]) -> bool:
    """Return whether the User-Agent contains one of the texts, whatever the case of its letters."""
    if not agents:
        return False
    name = request.value_of(b"user-agent").lower()
    for agent in agents:  # noqa: SIM110
        if name.find(agent) >= 0:
            return True
    return False


def _has(request: Request, name: bytes) -> bool:
    """Return whether a request has a field with a value that is not empty."""
    return bool(request.value_of(name))
