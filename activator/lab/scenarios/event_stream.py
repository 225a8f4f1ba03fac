"""Scenario 29: clients of event streams send requests to a service without a pod."""

from __future__ import annotations

from activator.lab.environment import Environment
from activator.lab.scenario import Scenario

ANNOTATIONS = {
    "activator.dev/profile": "openai",
    "activator.dev/heartbeat-seconds": "1",
    "activator.dev/wait-seconds": "60",
}
ACCEPT = {"Accept": "text/event-stream"}
JSON = {"Accept": "application/json"}
MODELS = "/v1/models"


async def script(environment: Environment) -> None:
    """Run the scenario; see activator.lab.scenario."""
    app = await environment.deploy(pods=0, timeout=2, annotations=ANNOTATIONS)
    poll = await environment.request(app, MODELS, headers=JSON)
    environment.expect("a poll starts no pod", poll.status == 503, poll)
    environment.expect("its error has the form of OpenAI", '{"error":{' in poll.body, poll.body)

    waiting = environment.start_request(app, "/events?n=2", headers=ACCEPT)
    await app.until_view(
        "the client has the head of the stream",
        lambda view: view["whileWaiting"]["earlyHeads"] == 1,
    )
    await app.until_view(
        "it waits for longer than the time-out",
        lambda view: view["oldestWaiterSeconds"] is not None and view["oldestWaiterSeconds"] > 2.2,
    )
    (pod,) = app.start_pods(1)
    stream = await waiting
    environment.expect("the stream has status 200", stream.status == 200, stream)
    environment.expect(
        "comments came before the pod", ": waiting reason=" in stream.body, stream.body
    )
    environment.expect("and its events followed", "line 2" in stream.body, stream.body)
    environment.expect("without an error", "event: error" not in stream.body, stream.body)

    models = await environment.request(app, MODELS, headers=JSON)
    environment.expect("the pod lists its models", '"echo"' in models.body, models)
    app.terminate(pod)
    await app.until_view("the service sleeps again", lambda view: not view["pods"])
    kept = await environment.request(app, MODELS, headers=JSON)
    environment.expect("the list stays while the service sleeps", '"echo"' in kept.body, kept)


SCENARIO = Scenario(
    29,
    "event-stream",
    "Clients of event streams send requests to a service without a pod",
    knative="sends no byte until a pod responds. The time-out covers wait and response.",
    here="the client gets comments while the model loads, then the events of the pod. Polls for "
    "models start no pod, and get the last list.",
    script=script,
)
