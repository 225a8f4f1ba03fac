"""Make the facts of ``activator explain`` about the policies that annotations choose."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from activator.console.responses import Node
from activator.console.screen import Fact

#: Pods whose adaptive limit is listed, at most.
LISTED_LIMITS: Final = 5

#: The texts of the wake rules that are lists, by their field.
_WAKE_RULES: Final = {
    "methods": "only by the methods",
    "notUserAgents": "not by the User-Agents",
    "notPaths": "not by the paths, and those below,",
}


def facts(one: Node) -> Iterator[Fact]:
    """Yield a fact for each policy in force.

    Raises:
        ValueError: the response does not follow the API; the text names the field.
    """
    if "loadBalancing" in one:
        yield Fact("Balancing", (_balancing(one),))
    if (sticky := one.node("sticky")) is not None:
        yield Fact("Sticky", (_sticky(sticky),))
    if one.text("adaptiveConcurrency", default="off") != "off":
        yield Fact("Adaptive", (_adaptive(one),))
    if (order := one.node("queueOrder")) is not None:
        yield Fact("Order", tuple(_order(order)))
    yield from _waking(one)
    if (waiting := one.node("whileWaiting")) is not None:
        yield Fact("Waiting", tuple(_waiting(waiting)))
    if profile := one.text("profile", default=""):
        yield Fact("Profile", (profile,))
    if wait := one.number("waitSeconds", default=0.0):
        yield Fact("Wait", (f"at most {wait:g} s for a pod; the time-out counts from then",))


def _balancing(one: Node) -> str:
    """Return the policy, and its key if it has one."""
    key = one.text("hashKey", default="")
    return one.text("loadBalancing") + (f", hash key {key}" if key else "")


def _sticky(sticky: Node) -> str:
    """Return the key of sticky requests, and their results."""
    results = ("kept", "hashed", "overflowed", "waited")
    counts = ", ".join(f"{sticky.whole(each)} {each}" for each in results)
    return f"by {sticky.text('key')}, overflow {sticky.text('overflow')}: {counts}"


def _waiting(waiting: Node) -> Iterator[str]:
    """Yield what waiting clients get, how many get it, and the lease."""
    modes = waiting.texts("modes")
    after = f"; a page after {waiting.number('pageAfterSeconds'):g}s" if "page" in modes else ""
    if template := waiting.text("pageTemplate", default=""):
        after += f" by the template {template}"
    if "heartbeat" in modes:
        after += f"; heartbeats each {waiting.number('heartbeatSeconds'):g}s"
    yield ", else ".join(modes) + after
    if (counts := waiting.node("queuedByMode")) is not None:
        yield ", ".join(f"{int(count)} {mode}" for mode, count in counts.numbers())
    if left := waiting.number("leaseSeconds"):
        yield f"open pages or refused clients count as one request for {left:.1f}s"


def _adaptive(one: Node) -> str:
    """Return the mode of adaptive concurrency, and the limits of pods."""
    limits = [
        f"{pod.text('address')} {pod.whole('adaptiveLimit')}"
        for pod in one.nodes("pods")
        if "adaptiveLimit" in pod
    ]
    more = len(limits) - LISTED_LIMITS
    listed = ", ".join(limits[:LISTED_LIMITS]) + (f" and {more} more" if more > 0 else "")
    mode = one.text("adaptiveConcurrency")
    means = "a pod's limit" if mode == "on" else "limits that are not applied"
    return f"{mode}, {means}: {listed}" if limits else mode


def _order(order: Node) -> Iterator[str]:
    """Yield how the queue orders requests, and which of them wait."""
    if priority := order.text("priority", default=""):
        selected = (
            " unless Activator-Priority selects another" if order.flag("trustsHeader") else ""
        )
        yield f"by class: {priority}{selected}"
    if (classes := order.node("queuedByClass")) is not None:
        yield ", ".join(f"{classes.whole(name)} {name}" for name in ("high", "normal", "low"))
    if fair_by := order.text("fairBy", default=""):
        flows = order.whole("flows")
        yield f"fair by {fair_by}: {flows} flow{'' if flows == 1 else 's'}"
        for flow in order.nodes("largestFlows"):
            yield f"{flow.whole('queued')} of {flow.text('flow')}"


def _waking(one: Node) -> Iterator[Fact]:
    """Yield which requests may start a pod, and which clients keep the revision awake."""
    if (rules := one.node("wakeRules")) is not None:
        yield Fact("Wake rules", tuple(_wake_rules(rules)))
    if (server := one.node("authorization")) is not None:
        asked = "each request" if server.flag("always") else "requests that would wait"
        cached = server.number("cacheSeconds")
        kept = f", cached for {cached:g} s" if cached else ""
        # A wrong value leaves no server to ask.
        wrong = ": 503, since an annotation activator.dev/auth-* has a wrong value"
        url = server.text("url")
        yield Fact("Authorization", (f"{asked}, by {url}{kept}" if url else f"{asked}{wrong}",))
    if agents := one.nodes("keptAwakeBy", required=False):
        yield Fact("Kept awake by", tuple(map(_agent, agents)))


def _wake_rules(rules: Node) -> Iterator[str]:
    """Yield one line for each rule."""
    for name, text in _WAKE_RULES.items():
        if values := rules.texts(name):
            yield f"{text} {', '.join(values)}"
    if header := rules.text("requiredHeader", default=""):
        yield f"only with the header {header}"
    yield f"other requests get {rules.whole('asleepStatus')} while no pod is usable"


def _agent(agent: Node) -> str:
    """Return a client, and how many requests a minute it sends."""
    count = agent.whole("requestsPerMinute")
    return f"{agent.text('agent')}, {count} request{'' if count == 1 else 's'} a minute"
