"""Package the Helm chart, on request with the image of a release as its default.

``make chart`` runs it. Without an image, the chart requires ``image.repository`` of its users.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import release_parts

CHART = Path("manifests") / "chart"
INPUT = Path("build") / "chart"


def with_image(values: str, image: str) -> str:
    """Return the text of values.yaml with another default image.

    Arguments:
        image: ``NAME@sha256:DIGEST``.

    Raises:
        SystemExit: the image has no digest or cannot exist, or values.yaml has no such keys.
    """
    repository, _, digest = release_parts.image(image)
    if not digest:
        raise SystemExit(f"IMAGE: {image!r} has no digest: the chart needs NAME@sha256:DIGEST")
    for key, value in (("repository", repository), ("digest", digest)):
        pattern = rf'^(image:\n(?:  .*\n)*?  {key}: )""$'
        values, found = re.subn(pattern, rf'\g<1>"{value}"', values, flags=re.MULTILINE)
        if not found:
            raise SystemExit(f"values.yaml has no empty key image.{key}")
    return values


def main(helm: str, target: Path, image: str | None = None) -> None:
    """Write the package of the chart into a folder.

    Arguments:
        image: its default image; without it, its users must set one.
    """
    try:
        # Copies: some files of the chart are links to the dashboards and alerts.
        shutil.copytree(CHART, INPUT, dirs_exist_ok=True)
        if image is not None:
            path = INPUT / "values.yaml"
            path.write_text(with_image(path.read_text(), image))
        command = [helm, "package", str(INPUT), "--destination", str(target)]
        print(release_parts.output(command).strip())
    finally:
        shutil.rmtree(INPUT, ignore_errors=True)
    print(f"Default image: {image or 'none, so that its users must set image.repository'}")


if __name__ == "__main__":
    main(release_parts.program(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
