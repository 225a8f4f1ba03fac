"""The request log: request_log_test.go of pkg/http and of cmd/activator.

The tests read the process's standard output, and configure the log by config-observability.
Knative's cases request a whole URL; these request a path, as clients do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.knative.objects import NAME, NAMESPACE, config_map, private, revision
from tests.knative.peers import to
from tests.knative.pods import breaks
from tests.knative.world import World

ON = "logging.enable-request-log"
TEMPLATE = "logging.request-log-template"
PROBES = "logging.enable-probe-request-log"
OF_REVISION = (
    "{{.Revision.Name}}, {{.Revision.Namespace}}, {{.Revision.Service}}, "
    "{{.Revision.Configuration}}, {{.Revision.PodName}}, {{.Revision.PodIP}}"
)


class Output:
    """The standard output of the process; complete when it has ended."""

    def __init__(self, world: World, capfd: pytest.CaptureFixture[str]) -> None:
        self._world = world
        self._capfd = capfd

    async def whole(self) -> str:
        """End the activator, and return its output."""
        await self._world.close()
        return self._capfd.readouterr().out


@pytest.fixture
async def output(world: World, capfd: pytest.CaptureFixture[str]) -> Output:
    """Return the output of an activator with one revision and one pod."""
    (pod,) = await world.serving(1)
    world.apply(revision(), private([pod.at]))
    await world.passes()
    capfd.readouterr()
    return Output(world, capfd)


async def configure(world: World, data: Mapping[str, str]) -> None:
    """Write config-observability, which the activator applies without a restart."""
    world.apply(config_map("config-observability", data))
    await world.passes()


POST = to(method=b"POST", target=b"/testpage", body=b"test")


# pkg/http/request_log_test.go


@pytest.mark.parametrize(
    ("data", "probe", "want"),
    [
        pytest.param({ON: "true", TEMPLATE: ""}, False, "", id="empty template"),
        pytest.param(
            {ON: "true", TEMPLATE: "{{.Request.URL}}\n"}, False, "/testpage\n", id="with new line"
        ),
        pytest.param(
            {ON: "true", TEMPLATE: "{{.Request.ContentLength}}"}, False, "4\n", id="without"
        ),
        pytest.param({ON: "true", TEMPLATE: "{{}}"}, False, "", id="invalid template"),
        pytest.param(
            {ON: "true", TEMPLATE: OF_REVISION},
            False,
            f"{NAME}, {NAMESPACE}, service-{NAME}, config-{NAME}, , \n",
            id="revision info",
        ),
        pytest.param({ON: "true", TEMPLATE: "x"}, True, "", id="probe, not logged"),
        pytest.param({ON: "true", TEMPLATE: "x", PROBES: "true"}, True, "", id="probe, asked for"),
    ],
)
async def test_TestRequestLogHandler(
    world: World, output: Output, data: dict[str, str], probe: bool, want: str
) -> None:
    """The log has a line for each request, with a line feed, and none for probes.

    The activator rejects an invalid template; the log then keeps its state: off.
    """
    await configure(world, data)
    fields = b"K-Network-Probe: activator\r\n" if probe else b""
    await world.ask(to(method=b"POST", target=b"/testpage", fields=fields, body=b"test"))
    assert await output.whole() == want


async def test_TestRequestLogHandler__default_template(world: World, output: Output) -> None:
    """The default template has each field, in the exact order and spacing."""
    await configure(world, {ON: "true"})
    fields = b'User-Agent: gold "x"\r\nReferer: http://r/\r\n'
    await world.ask(to(target=b"/a?b=1", fields=fields))
    written = await output.whole()
    start = (
        '{"httpRequest": {"requestMethod": "GET", "requestUrl": "/a?b\\u003D1", '
        '"requestSize": "0", "status": 200, "responseSize": "5", '
        '"userAgent": "gold \\"x\\"", "remoteIp": "127.0.0.1:'
    )
    assert written.startswith(start)
    found = json.loads(written)
    assert list(found) == ["httpRequest", "traceId"]
    assert list(found["httpRequest"]) == [
        *("requestMethod", "requestUrl", "requestSize", "status", "responseSize", "userAgent"),
        *("remoteIp", "serverIp", "referer", "latency", "protocol"),
    ]
    assert found["httpRequest"]["requestUrl"] == "/a?b=1"
    assert found["httpRequest"]["serverIp"] == found["traceId"] == ""
    assert found["httpRequest"]["referer"] == "http://r/"
    assert found["httpRequest"]["protocol"] == "HTTP/1.1"
    assert float(found["httpRequest"]["latency"].removesuffix("s")) >= 0
    assert written.endswith('"protocol": "HTTP/1.1"}, "traceId": ""}\n')


async def test_TestPanickingHandler(world: World, output: Output) -> None:
    """The log has failed requests as well.

    In Knative's case the inner handler panics, and the log has 500. A pod that resets its
    connection is a 502 in both.
    """
    world.pods[0].pieces = [(0, breaks)]
    await configure(world, {ON: "true", TEMPLATE: "{{.Request.URL}} {{.Response.Code}}"})
    assert (await world.ask(POST)).status == 502
    assert await output.whole() == "/testpage 502\n"


@pytest.mark.parametrize(
    "template", ['{{index (index .Request.Header "X-None") 3}}', "{{index .Request.Method 9}}"]
)
async def test_TestFailedTemplateExecution(world: World, output: Output, template: str) -> None:
    """A template fails on a request: a line reports that, and names the request."""
    await configure(world, {ON: "true", TEMPLATE: template})
    await world.ask(POST)
    written = await output.whole()
    assert written.startswith(
        "Invalid request log template: method: POST, response code: 200, latency: "
    )
    assert written.endswith(", url: /testpage\n")
    assert written.count("\n") == 1


async def test_TestFailedTemplateExecution__unknown_field(world: World, output: Output) -> None:
    """A template with an unknown field is rejected, and the previous template stays.

    Knative accepts it, and writes the error for each request.
    """
    await configure(world, {ON: "true", TEMPLATE: "good"})
    await configure(world, {ON: "true", TEMPLATE: "{{.Request.Something}}"})
    await world.ask(POST)
    assert await output.whole() == "good\n"


async def test_TestSetTemplate(world: World, output: Output) -> None:
    """Each new template applies from the next request on.

    An invalid template changes nothing: a log that was off stays off.
    """
    templates = ("", "{{.Request.URL}}\n", "", "{{.Request.ContentLength}}", "", "{{}}")
    for template in templates:
        await configure(world, {ON: "true" if template else "false", TEMPLATE: template})
        await world.ask(POST)
    assert await output.whole() == "/testpage\n4\n"


# cmd/activator/request_log_test.go


async def test_TestUpdateRequestLogFromConfigMap(world: World, output: Output) -> None:
    """Eight edits of the ConfigMap, one after the other."""
    url = "{{.Request.URL}}\n"
    steps: list[tuple[dict[str, str], str]] = [
        ({TEMPLATE: ""}, ""),
        ({TEMPLATE: url, ON: "true"}, "/1\n"),
        ({TEMPLATE: "{{}}", ON: "true"}, "/2\n"),  # the previous template stays
        (
            {TEMPLATE: OF_REVISION, ON: "true"},
            f"{NAME}, {NAMESPACE}, service-{NAME}, config-{NAME}, , \n",
        ),
        ({TEMPLATE: ""}, ""),
        ({TEMPLATE: url, ON: "true"}, "/5\n"),
        ({TEMPLATE: url, ON: "false"}, ""),
        ({TEMPLATE: "", ON: "true"}, ""),  # rejected, and the log was off before
    ]
    for number, (data, _) in enumerate(steps):
        await configure(world, data)
        await world.ask(to(method=b"POST", target=b"/%d" % number, body=b"x"))
    assert await output.whole() == "".join(want for _, want in steps)


@pytest.mark.parametrize(
    ("labels", "name", "want"),
    [
        pytest.param(None, NAME, f"{NAME} {NAMESPACE} service-{NAME} config-{NAME}\n", id="ok"),
        pytest.param({}, NAME, f"{NAME} {NAMESPACE}  \n", id="labels not found"),
        pytest.param(None, "nobody", "", id="revision not found"),
    ],
)
async def test_TestRequestLogTemplateInputGetter(
    world: World, output: Output, labels: Any, name: str, want: str
) -> None:
    """Service and configuration are the Revision's labels, or empty.

    The log has no line for an unknown revision.
    """
    world.apply(revision(labels=labels))
    names = "{{.Revision.Name}} {{.Revision.Namespace}} {{.Revision.Service}} "
    names += "{{.Revision.Configuration}}"
    await configure(world, {ON: "true", TEMPLATE: names})
    await world.ask(to(name))
    assert await output.whole() == want
