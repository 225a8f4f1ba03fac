"""Write the bill of materials of the image's packages: requirements.lock in CycloneDX's JSON.

``make sbom`` runs it. cyclonedx-py reads the lock. This module adds the version of the project and
the packages that it needs itself, and validates the result against the schema of CycloneDX 1.6.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

SPECIFICATION = "1.6"
LOCK = "requirements.lock"


def completed(document: dict[str, Any], version: str, direct: Iterable[str]) -> dict[str, Any]:
    """Return cyclonedx-py's document with the facts that it lacks.

    Arguments:
        document: CycloneDX of a lock and a pyproject.toml; it is changed.
        version: the version of the project.
        direct: names of the packages that the project itself requires.

    Raises:
        SystemExit: the lock lacks one of these packages.
    """
    root = document["metadata"]["component"]
    root["version"] = version
    root["purl"] = f"pkg:pypi/{root['name']}@{version}"
    references = {}
    for component in document["components"]:
        references[_canonical(component["name"])] = component["bom-ref"]
        # It repeats the line of the lock; the hashes are in externalReferences.
        component.pop("description", None)
    wanted = {_canonical(name) for name in direct}
    if missing := sorted(wanted - references.keys()):
        raise SystemExit(f"{LOCK} lacks {', '.join(missing)}: run `make lock`")
    others = [each for each in document["dependencies"] if each["ref"] != root["bom-ref"]]
    needs = sorted(references[name] for name in wanted)
    document["dependencies"] = [{"ref": root["bom-ref"], "dependsOn": needs}, *others]
    return document


def _canonical(name: str) -> str:
    """Return a package's name in the form of https://peps.python.org/pep-0503/."""
    return re.sub(r"[-_.]+", "-", name).lower()


def generated(version: str) -> dict[str, Any]:
    """Return cyclonedx-py's document of the lock.

    Arguments:
        version: the version of the project. cyclonedx-py requires a static one.
    """
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    known = {"name": project["name"], "version": version, "description": project["description"]}
    known["license"] = project["license"]
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        lines = [f"{name} = {json.dumps(value)}" for name, value in known.items()]
        file.write("\n".join(["[project]", *lines, ""]))
        file.flush()
        command = [*(sys.executable, "-W", "ignore", "-m", "cyclonedx_py", "requirements", LOCK)]
        command += ["--pyproject", file.name, "--spec-version", SPECIFICATION]
        command += ["--output-reproducible", "--output-format", "JSON"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    document = completed(json.loads(done.stdout), version, direct(project["dependencies"]))
    _validate(document)
    return document


def direct(requirements: Iterable[str]) -> list[str]:
    return [re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in requirements]


def _validate(document: dict[str, Any]) -> None:
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(document))
    if error is not None:
        raise SystemExit(f"the bill of materials breaks CycloneDX's schema: {error}")


def main(path: str) -> None:
    """Write the document into a file."""
    from activator import __version__

    document = generated(__version__)
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n")
    print(f"{target}: {len(document['components'])} packages, valid CycloneDX {SPECIFICATION}")


if __name__ == "__main__":
    sys.path.insert(0, str(Path.cwd()))
    main(sys.argv[1])
