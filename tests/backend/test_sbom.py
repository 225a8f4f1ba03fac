"""The bill of materials: the facts that are added to cyclonedx-py's document."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "backend"))

import sbom


def document():
    """Return a document of two packages, as cyclonedx-py writes it."""
    return {
        "metadata": {"component": {"bom-ref": "root-component", "name": "activator"}},
        "components": [
            {"bom-ref": "L3", "name": "PyYAML", "description": "requirements line 3: …"},
            {"bom-ref": "L9", "name": "yarl"},
        ],
        "dependencies": [{"ref": "L3"}, {"ref": "L9"}, {"ref": "root-component"}],
    }


def test_it_names_the_version_and_the_packages_that_the_project_needs_itself():
    found = sbom.completed(document(), "1.2.3", ["pyyaml"])
    root = found["metadata"]["component"]
    assert (root["version"], root["purl"]) == ("1.2.3", "pkg:pypi/activator@1.2.3")
    assert found["dependencies"] == [
        {"ref": "root-component", "dependsOn": ["L3"]},
        {"ref": "L3"},
        {"ref": "L9"},
    ]
    assert "description" not in found["components"][0]


def test_a_package_that_the_lock_lacks_is_named():
    with pytest.raises(SystemExit, match=r"requirements.lock lacks msgspec: run `make lock`"):
        sbom.completed(document(), "1.2.3", ["pyyaml", "msgspec"])


def test_names_of_requirements_have_no_versions_extras_and_markers():
    lines = ["click>=8.1", "asyncinotify>=4.2; sys_platform == 'linux'", "mypy[mypyc]>=2", "a.b-c"]
    assert sbom.direct(lines) == ["click", "asyncinotify", "mypy", "a.b-c"]
