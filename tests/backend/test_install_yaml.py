"""The manifests of a release: each overlay with the image of that release."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import yaml

sys.path.append(str(Path(__file__).parents[2] / "backend"))

import install_yaml
from tests.manifests.kubectl import kustomize_command

ROOT = Path(__file__).parents[2]
DIGEST = f"sha256:{'7' * 64}"


@pytest.mark.parametrize(
    ("image", "chosen"),
    [
        ("r.example/a:1.2.3", {"newName": "r.example/a", "newTag": "1.2.3"}),
        ("r.example:5000/a:7", {"newName": "r.example:5000/a", "newTag": "7"}),
        (f"r.example/a@{DIGEST}", {"newName": "r.example/a", "digest": DIGEST}),
        (f"r.example/a:1@{DIGEST}", {"newName": "r.example/a", "digest": DIGEST}),
    ],
)
def test_the_image_has_a_tag_or_a_digest(image, chosen):
    document = json.loads(install_yaml.kustomization("knative", image))
    assert document["images"] == [{"name": install_yaml.PLACEHOLDER, **chosen}]


@pytest.mark.parametrize("image", ["r.example/a", "r.example:5000/a"])
def test_an_image_without_both_is_refused(image):
    with pytest.raises(SystemExit, match="has neither a tag nor a digest"):
        install_yaml.kustomization("knative", image)


def test_each_container_runs_the_image(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(install_yaml, "INPUT", Path("build") / tmp_path.name)
    monkeypatch.setattr(install_yaml, "OVERLAYS", ("services",))
    image = f"r.example/a@{DIGEST}"
    install_yaml.main(kustomize_command(), image, tmp_path)
    objects = yaml.safe_load_all((tmp_path / "install-services.yaml").read_text())
    pods = [each["spec"]["template"]["spec"] for each in objects if each["kind"] == "Deployment"]
    assert [container["image"] for pod in pods for container in pod["containers"]] == [image] * 2
    written = capsys.readouterr().out
    assert "19 objects" in written
    assert "No cluster can pull" not in written
    assert not install_yaml.INPUT.exists()


def test_the_output_says_that_the_example_is_no_image(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(install_yaml, "INPUT", tmp_path / "input")
    monkeypatch.setattr(install_yaml, "OVERLAYS", ("services",))
    install_yaml.main([sys.executable, "-c", ""], "registry.example.com/activator:1", tmp_path)
    assert "No cluster can pull registry.example.com/activator:1: set IMAGE=" in (
        capsys.readouterr().out
    )
