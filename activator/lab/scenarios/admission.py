"""Scenario 28: a proxy asks for a pod of a service without one, and sends the request to it."""

from __future__ import annotations

from activator.lab.environment import Environment
from activator.lab.scenario import Scenario

PATH = "/echo"


async def script(environment: Environment) -> None:
    """Run the scenario; see activator.lab.scenario."""
    app = await environment.deploy(pods=0, timeout=30)
    port = environment.activator.admission

    def described(host: str) -> dict[str, str]:
        """Return the fields of nginx's request."""
        return {"Host": "activator", "X-Original-URL": f"http://{host}{PATH}"}

    unknown = await environment.request(app, headers=described("unknown.example"), where=port)
    environment.expect("an unknown host gets 404", unknown.status == 404, unknown)
    asking = environment.start_request(
        app, headers=described(f"{app.name}.default.svc.cluster.local"), where=port
    )
    await app.until_view("the proxy waits", lambda view: view["queued"] == 1)
    (pod,) = app.start_pods(1)
    response = await asking
    address = response.headers.get("activator-pod", "")
    environment.expect("the proxy gets 200", response.status == 200, response)
    host, _, number = address.rpartition(":")
    environment.expect("with the address of the pod", host == pod.options.address, address)
    counters = await pod.counters()
    environment.expect("the pod has no request yet", not counters["requests"], counters)
    served = await environment.request(app, PATH, where=(host, int(number)))
    environment.expect("it serves the proxy's request", served.status == 200, served)


SCENARIO = Scenario(
    28,
    "admission",
    "A proxy asks for a pod of a service without one, and sends the request to it",
    knative="has no port for proxies that ask.",
    here="the proxy waits until the pod is healthy, and learns its address. The request does not "
    "pass the activator.",
    script=script,
)
