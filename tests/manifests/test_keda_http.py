"""The exchange of the KEDA HTTP add-on's interceptor changes the image and its resources alone."""

from __future__ import annotations

import copy
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped] # it has no types
import pytest
import yaml

from activator.cli import main as cli
from activator.settings.config import Settings
from tests.manifests.kubectl import kustomize_command
from tests.manifests.kustomize import MANIFESTS, Object
from tests.manifests.test_manifests import container as activator_container
from tests.manifests.test_manifests import objects as objects  # a fixture
from tests.manifests.test_manifests import rendered
from tests.manifests.test_rbac import Grant, grants

THEIRS = Path(__file__).with_name("keda_http.yaml")


def exchanged(folder: Path) -> Object:
    """Return the Deployment after the real kustomize has applied the component."""
    shutil.copytree(MANIFESTS / "keda-http", folder / "keda-http")
    shutil.copy(THEIRS, folder)
    said = {"resources": [THEIRS.name], "components": ["keda-http"]}
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(said))
    (deployment,) = rendered(kustomize_command(), folder)
    return deployment


def container(deployment: Object) -> dict[str, Any]:
    (found,) = deployment["spec"]["template"]["spec"]["containers"]
    return dict(found)


def test_nothing_but_the_image_and_its_resources_changes(
    tmp_path: Path, objects: list[Object]
) -> None:
    theirs, ours = yaml.load(THEIRS.read_text(), yaml.CSafeLoader), exchanged(tmp_path)
    expected = copy.deepcopy(theirs)
    (changed,) = expected["spec"]["template"]["spec"]["containers"]
    changed["image"] = container(ours)["image"]
    changed["resources"] = container(ours)["resources"]
    assert ours == expected
    assert container(ours)["image"].startswith("registry.invalid/activator:")
    own = activator_container(objects)["resources"]
    for which in ("requests", "limits"):
        assert container(ours)["resources"][which]["memory"] == own[which]["memory"]
    kubernetes_validate.validate(ours, "1.34", strict=True)


def test_the_role_for_workloads_adds_nothing_else() -> None:
    found = list(
        yaml.load_all((MANIFESTS / "keda-http/workloads.yaml").read_text(), yaml.CSafeLoader)
    )
    for each in found:
        kubernetes_validate.validate(each, "1.34", strict=True)
    theirs = yaml.load(THEIRS.read_text(), yaml.CSafeLoader)
    assert grants([theirs, *found], theirs["metadata"]["name"]) == {
        Grant("apps", kind, "", verb, "")
        for kind in ("deployments", "statefulsets")
        for verb in ("list", "watch")
    }


def test_the_program_starts_with_what_the_deployment_gives_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, started = ModuleType("activator.app"), list[Settings]()
    app.main = lambda settings: started.append(settings) or 0  # type: ignore[attr-defined,func-returns-value] # a stand-in
    monkeypatch.setitem(sys.modules, "activator.app", app)
    found = container(exchanged(tmp_path))
    for each in found["env"]:
        monkeypatch.setenv(each["name"], each["value"])
    assert "command" not in found, "the image's entry point gets the arguments"
    assert cli.main(found["args"]) == 0
    (settings,) = started
    assert (settings.command, settings.dialect) == ("run", ("keda",))
    ports = {each["name"]: each["containerPort"] for each in found["ports"]}
    assert (settings.http_port, settings.admin_port) == (ports["proxy"], ports["admin"])
    assert (settings.log_level, settings.log_format) == ("info", "console")
