from __future__ import annotations

from activator.lab.objects import TCP_PROBE, deployment, service


def test_service_selects_the_pods_of_its_deployment():
    made, found = deployment("web"), service("web", annotations={"enabled": "true"})
    template = made["spec"]["template"]["metadata"]["labels"]
    assert found["spec"]["selector"].items() <= template.items()
    assert found["metadata"]["annotations"] == {"activator.dev/enabled": "true"}
    names = [port["name"] for port in made["spec"]["template"]["spec"]["containers"][0]["ports"]]
    assert found["spec"]["ports"][0]["targetPort"] in names


def test_template_has_the_probe_and_further_labels():
    made = deployment("web", probe=TCP_PROBE, template_labels={"version": "b"})
    (container,) = made["spec"]["template"]["spec"]["containers"]
    assert container["readinessProbe"] == {"tcpSocket": {"port": "http"}}
    assert made["spec"]["template"]["metadata"]["labels"] == {"app": "web", "version": "b"}
