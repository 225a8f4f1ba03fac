"""Converts what wakes a revision, and keeps it awake, to the JSON values of the admin API. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from activator.admin.views.waking import AgentView, AuthorizationView, WakeRulesView
from activator.records.agents import Agents
from throttler.model import Revision

#: So many clients are shown: the ones with the most requests.
MOST_AGENTS: Final = 3


def wake_rules_view(revision: Revision) -> WakeRulesView | None:
    """Return the wake rules of a revision; None without any."""
    policies = revision.policies.requests
    rules = None if policies is None else policies.wake
    if rules is None:
        return None
    return {
        "methods": _texts(rules.methods),
        "notUserAgents": _texts(rules.not_user_agents),
        "notPaths": _texts(rules.not_paths),
        "requiredHeader": rules.required_header.decode("ascii") or None,
        "asleepStatus": rules.asleep_status,
    }


def authorization_view(revision: Revision) -> AuthorizationView | None:
    """Return the authorization server of a revision; None without one."""
    policies = revision.policies.requests
    server = None if policies is None else policies.authorization
    if server is None:
        return None
    url = server.url.partition("?")[0]  # the rest may be secret
    return {"url": url, "always": server.always, "cacheSeconds": server.cache_seconds}


def kept_awake_view(agents: Agents, now: float) -> list[AgentView]:
    """Return the clients that keep a revision awake; ``now`` in seconds."""
    named = agents.keep_awake(now)[:MOST_AGENTS]
    return [{"agent": name, "requestsPerMinute": count} for name, count in named]


def _texts(values: Iterable[bytes]) -> list[str]:
    return [value.decode("ascii") for value in values]
