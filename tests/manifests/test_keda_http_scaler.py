"""The exchange of the KEDA HTTP add-on's scaler, by the real kustomize."""

from __future__ import annotations

import copy
import shutil
import sys
from pathlib import Path
from types import ModuleType
from urllib.parse import urlsplit

import kubernetes_validate  # type: ignore[import-untyped] # it has no types
import pytest
import yaml

from activator.cli import main as cli
from activator.scale.settings import ScaleSettings
from tests.manifests.kubectl import kustomize_command
from tests.manifests.kustomize import MANIFESTS, Object
from tests.manifests.test_keda_http import THEIRS as INTERCEPTOR
from tests.manifests.test_keda_http import container
from tests.manifests.test_manifests import rendered

THEIRS = Path(__file__).with_name("keda_http_scaler.yaml")


def exchanged(folder: Path, deployment: str = "") -> tuple[Object, Object, Object]:
    """Return the Deployments of interceptor and scaler, and the Service of the scaler.

    Arguments:
        deployment: the name of the scaler's Deployment, if it is not the one of the chart.
    """
    components = ["keda-http", "keda-http-scaler"]
    for name in components:
        shutil.copytree(MANIFESTS / name, folder / name)
    shutil.copy(INTERCEPTOR, folder)
    service_name = "keda-add-ons-http-external-scaler"
    name = deployment or service_name
    objects = list(yaml.load_all(THEIRS.read_text(), yaml.CSafeLoader))
    for each in objects:
        if each["kind"] == "Deployment":
            each["metadata"]["name"] = name
    (folder / THEIRS.name).write_text(yaml.safe_dump_all(objects))
    said = {"resources": [INTERCEPTOR.name, THEIRS.name], "components": components}
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(said))
    found = {
        (each["kind"], each["metadata"]["name"]): each
        for each in rendered(kustomize_command(), folder)
    }
    for each in found.values():
        kubernetes_validate.validate(each, "1.34", strict=True)
    interceptor = found.pop(("Deployment", "keda-add-ons-http-interceptor"))
    scaler, service = found.pop(("Deployment", name)), found.pop(("Service", service_name))
    assert not found
    return interceptor, scaler, service


def test_the_deployment_of_the_kustomization_has_another_name(tmp_path: Path) -> None:
    _, ours, _ = exchanged(tmp_path, "keda-add-ons-http-scaler")
    assert container(ours)["image"].startswith("registry.invalid/activator:")


def test_image_resources_and_replicas_change_and_nothing_else(tmp_path: Path) -> None:
    theirs, their_service = yaml.load_all(THEIRS.read_text(), yaml.CSafeLoader)
    _, ours, service = exchanged(tmp_path)
    expected = copy.deepcopy(theirs)
    changed = container(expected) | {name: container(ours)[name] for name in ("image", "resources")}
    expected["spec"]["template"]["spec"]["containers"] = [changed]
    expected["spec"]["template"]["spec"]["tolerations"] = ours["spec"]["template"]["spec"][
        "tolerations"
    ]
    expected["spec"]["replicas"] = 1
    assert ours == expected
    assert container(ours)["image"].startswith("registry.invalid/activator:")
    their_service["spec"]["ports"].append({"name": "stat", "port": 8080, "targetPort": 8080})
    assert service == their_service


def test_the_program_starts_with_what_the_deployments_give_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, started = ModuleType("activator.scale.app"), list[ScaleSettings]()
    app.main = lambda settings, wakes_all: started.append(settings) or 0  # type: ignore[attr-defined,func-returns-value] # a stand-in
    monkeypatch.setitem(sys.modules, "activator.scale.app", app)
    interceptor, scaler, service = exchanged(tmp_path)
    found = container(scaler)
    for each in found["env"]:
        monkeypatch.setenv(each["name"], each["value"])
    assert cli.main(found["args"]) == 0
    (settings,) = started
    assert settings.dialect == ("keda",)
    assert settings.interceptors == ("keda", "keda-add-ons-http-interceptor-admin")
    ports = {each["name"]: each["containerPort"] for each in found["ports"]}
    assert (settings.grpc_port, settings.metrics_port) == (ports["grpc"], ports["metrics"])
    # The activators reach the port for their reports, in the namespace of both.
    [url] = [
        urlsplit(each["value"])
        for each in container(interceptor)["env"]
        if each["name"] == "ACTIVATOR_SCALER_URL"
    ]
    assert url.hostname == service["metadata"]["name"]
    assert scaler["metadata"]["namespace"] == interceptor["metadata"]["namespace"]
    targets = {each["port"]: each["targetPort"] for each in service["spec"]["ports"]}
    assert targets[url.port] == settings.stat_port
