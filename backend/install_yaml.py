"""Write one file of manifests for each overlay, with the image of a release.

``make install-yaml`` runs it. The release workflow passes the image with its digest.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import release_parts

OVERLAYS = ("knative", "services")
#: The name of the image in the manifests; it is of no registry.
PLACEHOLDER = "registry.invalid/activator"
#: The registry of the Makefile's default image, which does not exist.
EXAMPLE = "registry.example.com/"
#: kustomize accepts only relative paths, so its input is inside the project.
INPUT = Path("build") / "install"


def kustomization(overlay: str, image: str) -> str:
    """Return a kustomization of one overlay with another image.

    Arguments:
        image: ``NAME:TAG`` or ``NAME@sha256:DIGEST``.

    Raises:
        SystemExit: the image has neither a tag nor a digest, or cannot exist.
    """
    name, tag, digest = release_parts.image(image)
    if not tag and not digest:
        raise SystemExit(f"IMAGE: {image!r} has neither a tag nor a digest")
    # Kubernetes ignores the tag if there is a digest.
    chosen = {"digest": digest} if digest else {"newTag": tag}
    images = [{"name": PLACEHOLDER, "newName": name, **chosen}]
    resources = [f"../../manifests/overlays/{overlay}"]
    return json.dumps({"resources": resources, "images": images})


def main(kustomize: Sequence[str], image: str, target: Path) -> None:
    """Write ``install-OVERLAY.yaml`` for each overlay.

    Arguments:
        kustomize: the command that prints the objects of the folder that follows.
    """
    target.mkdir(parents=True, exist_ok=True)
    try:
        for overlay in OVERLAYS:
            text = kustomization(overlay, image)
            INPUT.mkdir(parents=True, exist_ok=True)
            (INPUT / "kustomization.yaml").write_text(text)
            objects = release_parts.output([*kustomize, str(INPUT)])
            if f"{PLACEHOLDER}:" in objects:
                raise SystemExit(f"the overlay {overlay} has an image of no registry")
            path = target / f"install-{overlay}.yaml"
            path.write_text(objects)
            print(f"{path}: {objects.count(chr(10) + 'kind: ')} objects, image {image}")
    finally:
        shutil.rmtree(INPUT, ignore_errors=True)
    if image.startswith(EXAMPLE):
        print(f"No cluster can pull {image}: set IMAGE=NAME:TAG or IMAGE=NAME@sha256:DIGEST")


if __name__ == "__main__":
    main([release_parts.program(sys.argv[1]), "kustomize"], sys.argv[2], Path(sys.argv[3]))
