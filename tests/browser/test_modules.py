"""The pure functions of the dashboard's modules, executed by the browser.

Each case is an expression with names of its module, and its value.
"""

from __future__ import annotations

import json
from typing import Any

from tests.browser.conftest import Open
from tests.browser.site import Site
from throttler.reason import AT_ZERO, DELETED_SERVICE, NO_SERVER, STARTING

VIEW: dict[str, Any] = {
    "namespace": "default",
    "name": "a",
    "containerConcurrency": 0,
    "capacity": 0,
    "inFlight": 0,
    "queued": 0,
    "oldestWaiterSeconds": None,
    "reason": None,
    "pods": [],
}
STARTS = {"startSeconds": 2.0, "startingSeconds": 1.0}
LATE = {"startSeconds": 0.819, "startingSeconds": 28.0}
LOST = {
    "kind": "Service",
    "namespace": "default",
    "name": "a",
    "reason": "no-scalable-target",
    "warning": "no workload",
}
POD = {"state": "healthy", "decision": "use", "usable": True, "inSlice": True, "lastError": None}
PAST = {
    "queued": [0, 3, 1],
    "inFlight": [2, 2, 5],
    "outcomes": {
        "served": [10, 15, 30],
        "admitted": [0, 5, 0],
        "timed-out": [0, 1, 0],
        "cancelled": [4, 0, 0],
    },
}
COLD_START: dict[str, Any] = {
    "phases": {"address": 1.5, "probe": 1.5, "first-byte": 2.0},
    "seconds": 2.25,
}


def view(**fields: Any) -> str:
    return json.dumps(VIEW | fields)


def pod(**fields: Any) -> dict[str, Any]:
    return POD | fields


WAKING: dict[str, Any] = {
    "keptAwakeBy": [
        {"agent": "Prometheus", "requestsPerMinute": 12},
        {"agent": "curl", "requestsPerMinute": 1},
    ],
    "wakeRules": {
        "methods": ["GET", "POST"],
        "notUserAgents": [],
        "notPaths": ["/health"],
        "requiredHeader": "authorization",
        "asleepStatus": 204,
    },
    "authorization": {"url": "http://auth/check", "always": False, "cacheSeconds": 0},
    "queueDepth": 1,
    "heldBytes": 0,
    "protocol": "http1",
    "timeoutSeconds": 1,
    "activatorCount": 1,
}
QUIET, BUSY, FAILED = (
    json.dumps({"errors": errors, "busy": busy})
    for errors, busy in ((0, False), (0, True), (3, True))
)
OUT = pod(
    kubernetes="ready", state="probing", usable=False, decision="wait", decidedBy="probe-failed"
)
WAITS = view(queued=1, oldestWaiterSeconds=4)
LONG = f"{{view: {view(queued=1, reason='draining')}}}"
IGNORED = [
    {"kind": "Endpoints", "namespace": "a", "name": f"{n}", "warning": "w"} for n in range(7)
]
FILES = json.dumps({"ready": True, "manifestErrors": {"a.yaml": "bad", "b.yaml": "bad"}})


def up(seconds: float, name: str = "p") -> str:
    return json.dumps({"podName": name, "uptimeSeconds": seconds})


CASES: dict[str, list[tuple[str, Any]]] = {
    "attention.js": [
        (f"levelOf({WAITS}, {FAILED})", "waiting"),
        (f"levelOf({view(inFlight=1)}, {FAILED})", "failing"),
        (f"levelOf({view(inFlight=1)}, {QUIET})", "busy"),
        (f"levelOf({view()}, {QUIET})", "idle"),
        (f"levelOf({view(pods=[OUT])}, {QUIET})", "failing"),
        # A request that arrived and ended between two polls.
        (f"levelOf({view()}, {BUSY})", "busy"),
        # The queue began when its first request arrived, not when the page got the view.
        (f"rank({WAITS}, {QUIET}, 10000, null).since", 6000),
        # It keeps its level for ten seconds after the cause is gone.
        (f"rank({view()}, {QUIET}, 12000, rank({WAITS}, {QUIET}, 10000, null)).level", "waiting"),
        (f"rank({view()}, {QUIET}, 12000, rank({WAITS}, {QUIET}, 10000, null)).now", "idle"),
        (f"rank({view()}, {QUIET}, 20000, rank({WAITS}, {QUIET}, 10000, null)).level", "idle"),
        # A worse level applies at once.
        (f"rank({WAITS}, {QUIET}, 10001, rank({view()}, {QUIET}, 10000, null)).level", "waiting"),
        # A queue that empties and fills again in this time keeps its place.
        (
            f"rank({view(queued=1, oldestWaiterSeconds=0)}, {QUIET}, 13000, "
            f"rank({view()}, {QUIET}, 12000, rank({WAITS}, {QUIET}, 10000, null))).place",
            6000,
        ),
    ],
    "format.js": [
        ("[600, 60, 95, 35].map(span)", ["10 minutes", "1 minute", "1 min 35 s", "35 s"]),
        ("[0, 0.04, 9.94, 9.96, 59.4, 59.6, 185, 3599.6].map(seconds)",
         ["0.0 s", "0.0 s", "9.9 s", "10 s", "59 s", "1 min 00 s", "3 min 05 s", "1 h 00 min"]),
        ("[7620, 86400, 273600].map(seconds)", ["2 h 07 min", "1 d 0 h", "3 d 4 h"]),
        ("[0.00042, 0.012, 0.2, 9.99, 12].map(finely)",
         ["0.4 ms", "12 ms", "0.20 s", "9.99 s", "12 s"]),
        ("[0, 999, 1000, 1234567].map(count)", ["0", "999", "1,000", "1,234,567"]),
        ("[counted(1, 'pod'), counted(2, 'pod')]", ["1 pod", "2 pods"]),
        ("[0, 0.016, 0.5, 3.24, 120.4, 4321].map(rate)",
         ["0", "0.02", "0.5", "3.2", "120", "4,321"]),
        ("[0, 812, 3200, 67108864].map(bytes)", ["0 B", "812 B", "3.1 KiB", "64 MiB"]),
        ("clockAt(2000, 7000, new Date(2026, 2, 1, 12, 0, 3))", "11:59:58"),
    ],
    "header.js": [
        (f"problems({FILES}, 0)", ["a.yaml: bad", "b.yaml: bad"]),
        (f"problems({FILES}, 0, true)",
         ["Errors in 2 files of the folder: see the overview."]),
        (f"problems({json.dumps({'ready': True, 'objectWarnings': IGNORED[:1]})}, 0)",
         ["Endpoints a/0: w"]),
        (f"problems({json.dumps({'ready': True, 'certificateWarnings': ['it expires']})}, 0, true)",
         ["It expires."]),
        # They are no fault of one revision, whose page shows its own.
        (f"problems({json.dumps({'ready': True, 'objectWarnings': IGNORED})}, 0, true)", []),
        ('scalerPage("http://a/b", "#/services/shop/hello")', "http://a/b/#/services/shop/hello"),
        ('scalerPage("http://a/", "#/?filter=x")', "http://a/"),
        ('restarted({"pod": "b", "before": "a"}, "")',
         "Another activator responds now: b instead of a."),
    ],
    "history.js": [
        (f'reachOf({{"stepSeconds": 5, "steps": 120, "activator": {json.dumps(PAST)}}})', 15),
        # The last minute has two steps of 30 s.
        (f"recent({json.dumps(PAST)}, 30)",
         {"servedPerSecond": 50 / 60, "errors": 1, "busy": True, "ends": [["timed-out", 1]]}),
        ("recent(null, 5)", {"servedPerSecond": 0, "errors": 0, "busy": False, "ends": []}),
        # A cancelled request is no error.
        (f"recent({json.dumps(PAST)}, 5).errors", 1),
        (f"recent({json.dumps(PAST)}, 5).ends", [["cancelled", 4], ["timed-out", 1]]),
        # The latest of equal peaks.
        ("peak([1, 3, 3, 2])", {"most": 3, "at": 2}),
        ("peak([0, 0])", {"most": 0, "at": -1}),
        (f"isBusyInLastStep({json.dumps(PAST)})", True),
        ('isBusyInLastStep({"queued": [1, 0], "inFlight": [1, 0]})', False),
    ],
    "model.js": [
        ("worded('No requests: request-log, never requested', {protocol: 'tcp'})",
         "No connections: request-log, never requested"),
        ("worded('1 request waits', {protocol: 'http1'})", "1 request waits"),
        (f"keyOf({view()})", "default/a"),
        (f"keyOf({view(kind='revision')})", "default/a"),
        (f"keyOf({view(kind='service')})", "Service default/a"),
        ("partsOf('Service a/b')", {"kind": "service", "names": "a/b"}),
        ("partsOf('a/b')", {"kind": "revision", "names": "a/b"}),
        (f"capacityOf({view(capacity=6, containerConcurrency=3)})", 6),
        (f"capacityOf({view(capacity=None)}) === Infinity", True),
        (f"stateOf({view()})", "scaled to zero"),
        (f"stateOf({view(pods=[pod(usable=False, state='probing')])})", "starting"),
        # Ready for Kubernetes, but ejected: the next request would wait.
        (f"stateOf({view(forecast=STARTS, failedStarts=1)})", "starting, cold starts failed"),
        (f"stateOf({view(pods=[OUT])})", "probe-failing (no request waits)"),
        (f"stateOf({view(pods=[OUT, pod()])})", "ready"),
        (f"stateOf({view(deleted=True, inFlight=1)})", "deleted"),
        (f"failedAgo({{view: {view(lastFailure={'secondsAgo': 2})}, at: 5000}}, 8000)", 5),
        (f"failedAgo({{view: {view()}, at: 0}}, 0) === Infinity", True),
        (f"stateOf({view(pods=[pod()])})", "ready"),
        (f"stateOf({view(pods=[pod()], inFlight=1)})", "serving"),
        (f"stateOf({view(reason='at-capacity', pods=[pod()])})", "at-capacity"),
        (f"podKind({json.dumps(pod())})", "in use"),
        (f"podKind({json.dumps(pod(inSlice=False))})", "shared"),
        (f"podKind({json.dumps(pod(decision='leave', state='draining'))})", "draining"),
        (f"podKind({json.dumps(pod(decision='leave'))})", "left"),
        (f"podKind({json.dumps(pod(decision='wait', state='probing'))})", "waiting"),
    ],
    "route.js": [
        ("parse('#/revisions/a/b').revision", "a/b"),
        ("parse('#/revisions/a/%3Cb%3E').revision", "a/<b>"),
        ("parse('#/revisions/a/100%').revision", "a/100%"),
        ("parse('#/?filter=a+b&show=waiting')",
         {"revision": None, "filter": "a b", "waiting": True, "unknownPage": ""}),
        ("parse('#nonsense').revision", None),
        ("parse('#/revisions/a').unknownPage", "revisions/a"),
        ("parse('#/revisions/a/b').unknownPage", ""),
        ("fragmentOf(parse('#/?filter=a%26b&show=waiting'))", "#/?filter=a%26b&show=waiting"),
        ("fragmentOf(parse(''))", "#/"),
        ("parse(toRevision('a/b?c#d')).revision", "a/b?c#d"),
        ("toRevision('Service a/b')", "#/services/a/b"),
        ("parse('#/services/a/b').revision", "Service a/b"),
        ("parse('#/pods/a/b').unknownPage", "pods/a/b"),
    ],
    "sparkline.js": [
        ("areaOf([0, 0], 2)", ""),
        # Too few steps for the full width are right-aligned.
        ("areaOf([4], 2)", "M60.0 24V2.0H120.0V24Z"),
    ],
    "store.js": [
        # Its uptime is longer than the pause since the last response: it is the same process.
        (f"changeOf({up(9)}, 1000, {up(10)}, 2000)", None),
        (f"changeOf({up(9)}, 1000, {up(10)}, 9000)", None),
        (f"changeOf(null, 0, {up(1)}, 9000)", None),
        (f"changeOf({up(1)}, 1000, {up(2)}, 9000)", {"pod": "p", "before": "p", "began": 7000}),
        (f"changeOf({up(9)}, 1000, {up(900, 'q')}, 2000).before", "p"),
    ],
    "summary.js": [
        (f"alsoWaiting([{LONG}], 'draining')", ""),
        (f"alsoWaiting([{LONG}, {LONG}, {{view: {WAITS}}}], 'draining')",
         " Requests also wait in 2 other revisions, in 1 of them for the same reason."),
        (f"alsoWaiting([{LONG}, {LONG}], 'draining')",
         " Requests also wait in 1 other revision, for the same reason."),
        (f"alsoWaiting([{LONG}, {{view: {WAITS}}}], 'draining')",
         " Requests also wait in 1 other revision, for other reasons."),
    ],
    "cold_starts.js": [
        (f"stretches({json.dumps(COLD_START)}, 0).map((one) => [one.phase, one.lasted])",
         [["address", 1.5], ["probe", 0], ["first-byte", 0.5], ["waiting", 0.25]]),
        # A cold start in progress lasts as long as its first request has waited.
        ('stretches({"phases": {"address": 1}, "seconds": null}, 3).at(-1)',
         {"phase": "waiting", "from": 1, "lasted": 2}),
        ('lengthOf({"phases": {"address": 1}, "seconds": null}, 3)', 3),
    ],
    "pod_table.js": [
        ("inFlight({inFlight: 1200, limit: null, silentSeconds: null})", "1,200 / ∞"),
        ("inFlight({inFlight: 2, limit: 3, silentSeconds: 12.34})", "2 / 3, silent for 12 s"),
        ("placeOf({address: 'a:1', kubernetes: 'ready', zone: 'z', near: true})",
         "a:1, zone z (own)"),
        ("placeOf({address: 'a:1', kubernetes: 'ready', zone: 'z', near: false})", "a:1, zone z"),
        ("placeOf({address: 'a:1', kubernetes: 'ready', zone: null, near: null})", "a:1"),
        ("placeOf({address: 'a:1', kubernetes: 'service'})", "a:1 ClusterIP"),
    ],
    "revision.js": [
        (f"factsOf({view(**WAKING)}).slice(-5, -1)",
         [["Kept awake by", "Prometheus, 12 requests a minute; curl, 1 request a minute"],
          ["Wake rules", "only by GET,POST; not to /health; only with authorization"],
          ["Asleep status", "204"],
          ["Authorization", "requests that would wait, by http://auth/check"]]),
        (f"factsOf({view(queueDepth=1, heldBytes=0)})"
         ".some(([name]) => /wake|sleep|Auth/.test(name))", False),
    ],
    "words.js": [
        ("[{}, {kind: 'revision'}].map((view) => namesOf([{view}])[1])", ["revisions"] * 2),
        ("namesOf([{view: {kind: 'service'}}])", ["Service", "Services"]),
        ("namesOf([{view: {kind: 'service'}}, {view: {}}])",
         ["revision or Service", "revisions and Services"]),
        ("namesOf([])[0]", "revision or Service"),
        ("reasonSentence('no-endpoints', null)", "Kubernetes lists no pod of this revision."),
        ("reasonSentence('no-endpoints', null, 'service')",
         "Kubernetes lists no pod of this Service."),
        ("reasonSentence('probe-failing', 'refused').endsWith('fails (refused).')", True),
        ("reasonSentence('a-new-reason', null)", "a-new-reason"),
        ("eventText({kind: 'a-new-kind'})", "a-new-kind"),
        ("eventText({kind: 'failed', requests: 2, status: 502, reason: 'upstream-failed', "
         "detail: 'closed'})", "2 requests failed: 502 upstream-failed (closed)"),
        ("readiness('probe')", "it passes the activator's probe"),
        ("readiness('no-probe')", "Kubernetes lists it as ready; the activator does not probe"),
        (f"whatToDo('pods-not-ready', {view(kind='service')}, null)[2].text",
         "kubectl describe pods -n default $(kubectl get endpointslices -n default "
         "-l kubernetes.io/service-name=a -o 'jsonpath={..targetRef.name}')"),
        (f"whatToDo('probe-failing', {view(kind='service', route={'podsService': 'a-pods'})}, "
         f"null)[1].text.includes('service-name=a-pods ')", True),
        (f"whatToDo('no-endpoints', {view(kind='service')}, '/srv')[0].text.slice(-48)",
         "to an EndpointSlice of the Service, in the folder /srv"[-48:]),
        (f"whatToDo('no-endpoints', {view(kind='service', deleted=True)}, null)[0].text",
         DELETED_SERVICE),
        (f"whatToDo('pods-not-ready', {view(reason='pods-not-ready', forecast=STARTS)}, null)",
         [{"text": STARTING, "command": False}]),
        (f"whatToDo('pods-not-ready', "
         f"{view(kind='service', reason='pods-not-ready', forecast=LATE)}, null)"
         ".map(({text}) => text.slice(0, 16))",
         ["Read in the tabl", "kubectl get pods", "kubectl describe", "for pod in $(kub"]),
        (f"whatToDo('pods-not-ready', "
         f"{view(reason='pods-not-ready', forecast=STARTS, failedStarts=1)}, null)[0].text !== "
         f"{json.dumps(STARTING)}", True),
        (f"whatToDo('no-endpoints', {view(nextReason='no-endpoints')}, null)",
         [{"text": AT_ZERO, "command": False}]),
        (f"whatToDo('pods-asleep', {view(nextReason='pods-asleep')}, null)",
         [{"text": AT_ZERO, "command": False}]),
        (f"whatToDo('no-endpoints', {view(authorization={'url': '', 'always': False})}, null)",
         [{"text": NO_SERVER, "command": False}]),
        (f"whatToDo('no-endpoints', {view(failedStarts=1)}, null).length", 2),
        (f"whatToDo('no-endpoints', {view(forecast=STARTS, objectWarnings=[LOST])}, null)",
         [{"text": "Correct Service default/a: no workload", "command": False}]),
        (f"whatToDo('no-endpoints', {view(objectWarnings=[LOST | {'reason': 'limited'}])}, null)",
         [{"text": AT_ZERO, "command": False}]),
        (f"startText({view(forecast=STARTS)}, 0.5)", " Starting for 1.50 s; usually 2.00 s."),
        (f"startText({view()}, 0.5)", ""),
        (f"failedStarts({view(failedStarts=2, coldStarts=[{'outcome': 'page', 'why': 'asleep'}])})",
         "2 cold starts failed in a row. The last one: page; asleep."),
        (f"failedStarts({view()})", ""),
        ("forecasts({forecast: {expectedWaitSeconds: 0, startSeconds: 2.5, "
         "drainSecondsPerRequest: null}})",
         ["a new request would not wait", "a start takes about 2.50 s"]),
        ("forecasts({forecast: {expectedWaitSeconds: 0.2}})[0].slice(-17)", "wait about 0.20 s"),
        ("forecasts({forecast: {expectedWaitSeconds: 0.006}})[0].slice(-17)", "wait about 6.0 ms"),
        ("forecasts({forecast: {expectedWaitSeconds: 0.00002}})[0].slice(-14)", "would not wait"),
        ("forecasts({protocol: 'tcp', forecast: {expectedWaitSeconds: 1}})",
         ["a new connection would wait about 1.00 s"]),
        ("forecasts({protocol: 'tcp', forecast: {drainSecondsPerRequest: 2}})",
         ["a connection leaves the queue about every 2.00 s"]),
        ("forecasts({})", []),
        ("failure({status: 0, reason: 'no-endpoints', detail: null})", "closed, no-endpoints"),
        (f"withoutEffect({json.dumps(IGNORED[:1])})", ["Endpoints a/0: w"]),
        (f"withoutEffect({json.dumps(IGNORED)}).slice(4)",
         ["Endpoints a/4: w", "and 2 more warnings"]),
        ("withoutEffect(undefined)", []),
        (f"noRevision('a/0', {json.dumps(IGNORED)}).slice(-16)", "Endpoints a/0: w"),
        (f"noRevision('b/0', {json.dumps(IGNORED)}).slice(-10)", "this name."),
    ],
}  # fmt: skip


async def test_rules(site: Site, open_page: Open) -> None:
    page = await open_page(site.url)
    wrong = []
    for module, cases in CASES.items():
        values = ", ".join(expression for expression, _ in cases)
        asked = f"""async () => {{
            const names = await import("/dashboard/{module}");
            with (names) return [{values}];
        }}"""
        for (expression, value), found in zip(cases, await page.evaluate(asked), strict=True):
            if found != value:
                wrong.append(f"{module}: {expression} is {found!r}, not {value!r}")
    assert wrong == []
