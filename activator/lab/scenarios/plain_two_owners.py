"""Scenario 18: an HPA and the scaler both want to decide about one Deployment."""

from __future__ import annotations

from activator.lab.control_plane.resources import AUTOSCALERS
from activator.lab.plain.environment import PlainEnvironment
from activator.lab.scenario import Scenario
from activator.lab.timeline import Who


async def script(environment: PlainEnvironment) -> None:
    """Run the scenario; see activator.lab.scenario."""
    base = environment.base
    web = await environment.deploy(replicas=3)
    base.note(Who.FAULT, "a HorizontalPodAutoscaler targets the Deployment too")
    environment.cluster.create(AUTOSCALERS, autoscaler(web.name))
    view = await environment.until_scaler(web, "reason two-owners", "reason", "two-owners")
    base.expect("the reason names the HPA", "web" in str(view["detail"]), view["detail"])
    base.expect("the scaler leaves the pods alone", web.replicas == 3, web.replicas)
    events = await environment.until_event(web.name, "two-owners")
    base.expect("an Event on the Service says so", "two-owners" in events, events)
    web.scale(0)
    await web.until_listed(0)
    response = await base.request(web)
    base.expect("the scaler still wakes the Deployment", response.status == 200, response)


def autoscaler(name: str) -> dict[str, object]:
    """Return a HorizontalPodAutoscaler of a Deployment."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 5},
    }


SCENARIO = Scenario(
    18,
    "plain-two-owners",
    "An HPA targets a Deployment that the scaler scales too",
    knative="",
    kubernetes="lets both write the replicas, and they go up and down for ever.",
    here="the scaler removes no pod, gives the reason two-owners, and names the HPA. It still "
    "wakes the Deployment.",
    plain=script,
)
