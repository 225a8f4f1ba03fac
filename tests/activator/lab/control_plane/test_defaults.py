from __future__ import annotations

from tests.activator.lab.control_plane.world import APPS, SERVICES, deployment, service


async def test_workload_without_replicas_has_one(world):
    assert (await world.send("POST", APPS, deployment(replicas=None)))["spec"]["replicas"] == 1


async def test_probe_of_a_template_is_completed(world):
    found = deployment()
    found["spec"]["template"]["spec"]["containers"] = [
        {
            "name": "c",
            "ports": [{"containerPort": 8080}],
            "readinessProbe": {"httpGet": {"port": 8080}},
        },
        {"name": "d", "readinessProbe": {"grpc": {"port": 1}, "periodSeconds": 3}},
    ]
    made = await world.send("POST", APPS, found)
    first, second = made["spec"]["template"]["spec"]["containers"]
    assert first["readinessProbe"] == {
        "httpGet": {"port": 8080, "path": "/", "scheme": "HTTP"},
        "periodSeconds": 10,
        "timeoutSeconds": 1,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
    assert first["ports"] == [{"containerPort": 8080, "protocol": "TCP"}]
    assert second["readinessProbe"]["periodSeconds"] == 3
    assert second["readinessProbe"]["grpc"] == {"port": 1, "service": ""}


async def test_port_of_a_service_is_completed(world):
    made = await world.send("POST", SERVICES, service())
    assert made["spec"]["ports"] == [
        {"name": "http", "port": 80, "protocol": "TCP", "targetPort": 80}
    ]
    assert made["spec"]["type"] == "ClusterIP"
