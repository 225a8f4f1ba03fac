"""Which requests may wake a revision."""

from __future__ import annotations

import pytest

from activator.proxy.exchange.permission import may_wake
from activator.proxy.message.fields import HTTP_2
from activator.proxy.message.request import Request, RequestLimits, read_request
from throttler.request_policies import WakeRules

METHODS = WakeRules(methods=(b"GET", b"POST"))
AGENTS = WakeRules(not_user_agents=(b"uptimerobot", b"kube-probe", b"prometheus"))
PATHS = WakeRules(not_paths=(b"/health", b"/metrics"))
SLASH = WakeRules(not_paths=(b"/health/",))
HEADER = WakeRules(required_header=b"authorization")


def asking(target: bytes = b"/", method: bytes = b"GET", fields: bytes = b"") -> Request:
    head = b"%b %b HTTP/1.1\r\nHost: a\r\n%b\r\n" % (method, target, fields)
    return read_request(head, RequestLimits())


def agent(name: bytes) -> Request:
    return asking(fields=b"User-Agent: " + name + b"\r\n")


@pytest.mark.untraced
@pytest.mark.parametrize(
    ("rules", "request_", "may"),
    [
        (METHODS, asking(), True),
        (METHODS, asking(method=b"HEAD"), False),
        (METHODS, asking(method=b"get"), False),
        (AGENTS, agent(b"curl/8.14.1"), True),
        (AGENTS, asking(), True),
        (AGENTS, agent(b"Prometheus/3.5.0"), False),
        (AGENTS, agent(b"Mozilla/5.0+(compatible; UptimeRobot/2.0)"), False),
        (AGENTS, agent(b"KUBE-PROBE/1.33"), False),
        (AGENTS, asking(fields=b"USER-AGENT: a\r\nuser-agent: prometheus\r\n"), False),
        (AGENTS, agent(60_000 * b"a"), True),
        (AGENTS, asking(fields=b"X-A: prometheus\r\n"), True),
        (AGENTS, asking(b"/prometheus"), True),
        (PATHS, asking(), True),
        (PATHS, asking(b"/health"), False),
        (PATHS, asking(b"/health?now"), False),
        (PATHS, asking(b"/health/"), False),
        (PATHS, asking(b"/health/ready"), False),
        (PATHS, asking(b"/healthcare"), True),
        (PATHS, asking(b"/healthz"), True),
        (SLASH, asking(b"/health/ready"), False),
        (SLASH, asking(b"/health"), True),
        (WakeRules(not_paths=(b"/",)), asking(b"/a"), False),
        (PATHS, asking(b"http://a/metrics"), False),
        (PATHS, asking(b"/Health"), True),
        (PATHS, asking(b"/a/health"), True),
        (HEADER, asking(), False),
        (HEADER, asking(fields=b"Authorization:\r\n"), False),
        (HEADER, asking(fields=b"aUTHORIZATION: Bearer a\r\n"), True),
        (HEADER, asking(fields=b"Proxy-Authorization: Basic a\r\n"), False),
        (WakeRules(), asking(), True),
        (WakeRules(METHODS.methods, not_paths=(b"/health",)), asking(b"/health"), False),
    ],
)
def test_each_rule_must_allow_a_request(rules: WakeRules, request_: Request, may: bool) -> None:
    assert may_wake(rules, request_, request_.method) is may


@pytest.mark.parametrize(
    ("fields", "may"),
    [
        ({b"user-agent": b"curl"}, (True, False)),
        ({b"user-agent": b"Prometheus/3"}, (False, False)),
        ({b"authorization": b"Basic a"}, (True, True)),
    ],
)
def test_http2(fields: dict[bytes, bytes], may: tuple[bool, bool]) -> None:
    request = Request(b"GET", b"/", HTTP_2, b"a", fields, None, section=b"-")
    assert tuple(may_wake(rules, request, b"GET") for rules in (AGENTS, HEADER)) == may
