"""The parts of kustomize that the manifests use, to test them without kustomize.

It supports resources, components, ConfigMaps of files, namespace, labels, images, patches that add
and replacements of one field. Any other field of a kustomization is an error. test_manifests.py
compares it with the real ``kubectl kustomize``, which ``make test`` gets (kubectl.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import yaml


class UnsupportedError(ValueError):
    """A kustomization has a field or a value that this loader refuses."""


Object = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
MANIFESTS = ROOT / "manifests"

#: Kinds of objects without a namespace.
CLUSTER_WIDE = frozenset({"APIService", "ClusterRole", "ClusterRoleBinding", "Namespace"})


def build(folder: Path, components: Iterable[str] = ()) -> list[Object]:
    """Return the objects of a kustomization, with further components of this project.

    Raises:
        UnsupportedError: it uses an unsupported field.
    """
    objects = _apply(folder, [])
    for name in components:
        objects = _apply(MANIFESTS / "components" / name, objects)
    return objects


def find(objects: Iterable[Object], kind: str, name: str) -> Object:
    """Return the one object of that kind and name."""
    found = [o for o in objects if o["kind"] == kind and o["metadata"]["name"] == name]
    assert len(found) == 1, f"{len(found)} objects are {kind} {name}"
    return found[0]


def _apply(folder: Path, objects: list[Object]) -> list[Object]:
    said = yaml.load((folder / "kustomization.yaml").read_text(), yaml.CSafeLoader)
    said.pop("apiVersion"), said.pop("kind")
    for path in said.pop("resources", []):
        objects = objects + _resource(folder / path)
    options = said.pop("generatorOptions", {})
    for config_map in said.pop("configMapGenerator", []):
        objects = [*objects, _config_map(folder, config_map, options)]
    for path in said.pop("components", None) or []:
        objects = _apply(folder / path, objects)
    steps: dict[str, Callable[[list[Object], Any], None]] = {
        "patches": _patches,
        "namespace": _namespace,
        "labels": _labels,
        "images": _images,
        "replacements": _replacements,
    }
    for key, step in steps.items():
        if key in said:
            step(objects, said.pop(key))
    if said:
        raise UnsupportedError(f"{folder}: {', '.join(said)}")
    return objects


def _resource(path: Path) -> list[Object]:
    if path.is_dir():
        return _apply(path, [])
    return [obj for obj in yaml.load_all(path.read_text(), yaml.CSafeLoader) if obj]


def _config_map(folder: Path, said: Any, options: Any) -> Object:
    if set(said) != {"name", "files"} or not options["disableNameSuffixHash"]:
        raise UnsupportedError(f"configMapGenerator: {said}")
    files = [folder / path for path in said["files"]]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": said["name"], "labels": dict(options["labels"])},
        "data": {path.name: path.read_text() for path in files},
    }


def _patches(objects: list[Object], patches: list[Any]) -> None:
    for patch in patches:
        obj = find(objects, patch["target"]["kind"], patch["target"]["name"])
        for step in yaml.load(patch["patch"], yaml.CSafeLoader):
            if step["op"] != "add":
                raise UnsupportedError(f"patch: {step['op']}")
            _add(obj, step["path"], step["value"])


def _add(obj: Any, path: str, value: Any) -> None:
    *parents, last = path.removeprefix("/").split("/")
    for key in parents:
        obj = obj[int(key)] if isinstance(obj, list) else obj[key]
    if isinstance(obj, list):
        if last != "-":
            raise UnsupportedError(f"patch: {path}")
        obj.append(value)
    else:
        obj[last] = value


def _namespace(objects: list[Object], namespace: str) -> None:
    for obj in objects:
        if obj["kind"] not in CLUSTER_WIDE:
            obj["metadata"]["namespace"] = namespace
        if obj["kind"] == "Namespace":
            obj["metadata"]["name"] = namespace
        if obj["kind"] == "APIService":
            obj["spec"]["service"]["namespace"] = namespace
        for subject in obj.get("subjects", []):
            subject["namespace"] = namespace


def _replacements(objects: list[Object], replacements: list[Any]) -> None:
    for replacement in replacements:
        source = replacement["source"]
        value: Any = find(objects, source["kind"], source["name"])
        for key in source["fieldPath"].split("."):
            value = value[key]
        for target in replacement["targets"]:
            chosen = find(objects, target["select"]["kind"], target["select"]["name"])
            for path in target["fieldPaths"]:
                *parents, last = path.split(".")
                at: Any = chosen
                for key in parents:
                    at = at[key]
                at[last] = value


def _labels(objects: list[Object], groups: list[Any]) -> None:
    for group in groups:
        pairs = group.pop("pairs")
        if group not in ({}, {"includeTemplates": True}):
            raise UnsupportedError(f"labels: {group}")
        for obj in objects:
            obj["metadata"].setdefault("labels", {}).update(pairs)
            if group and obj["kind"] == "Deployment":
                obj["spec"]["template"]["metadata"]["labels"].update(pairs)


def _images(objects: list[Object], images: list[Any]) -> None:
    deployments = [obj for obj in objects if obj["kind"] == "Deployment"]
    for image in images:
        for deployment in deployments:
            for container in deployment["spec"]["template"]["spec"]["containers"]:
                name, _, tag = container["image"].rpartition(":")
                if name == image["name"]:
                    tag = image.get("newTag", tag)
                    container["image"] = f"{image.get('newName', name)}:{tag}"
