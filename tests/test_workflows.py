"""GitHub's workflows: valid, pinned, with few permissions, and true to the project.

No workflow runs here. The tests read the files, and run zizmor and shellcheck on them.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest
import yaml

from tests.guards import expect_none
from tests.programs import skip

ROOT: Final = Path(__file__).resolve().parents[1]
WORKFLOWS: Final = {path.stem: path for path in sorted((ROOT / ".github/workflows").glob("*.yml"))}
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())
USES: Final = re.compile(r"uses: (\S+)(?: # (\S+))?")


@cache
def read(name: str) -> dict[str, Any]:
    """Return a workflow; YAML 1.1 reads its key ``on`` as true."""
    document = yaml.safe_load(WORKFLOWS[name].read_text())
    document["on"] = document.pop(True)
    return document


def jobs() -> Iterator[tuple[str, dict[str, Any]]]:
    for name in WORKFLOWS:
        yield from ((f"{name}.{job}", body) for job, body in read(name)["jobs"].items())


def steps() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, job in jobs():
        yield from ((name, step) for step in job.get("steps", ()))


def program(name: str) -> str:
    """Return the path of a program that pip has installed."""
    found = shutil.which(name, path=str(Path(sys.executable).parent))
    return found or skip(f"{name} is missing; pip install -e '.[dev]'")


@pytest.mark.parametrize(
    ("schema", "names"), [("github-workflows", [*WORKFLOWS]), ("renovate", ["renovate.json"])]
)
def test_files_match_their_schemas(schema: str, names: list[str]) -> None:
    """check-jsonschema contains the schemas."""
    package = find_spec("check_jsonschema")
    if package is None or package.origin is None:
        skip("check-jsonschema is missing; pip install -e '.[dev]'")
    folder = Path(package.origin).parent / "builtin_schemas" / "vendor"
    document = json.loads((folder / f"{schema}.json").read_text())
    validator = jsonschema.validators.validator_for(document)(document)
    expect_none(
        f"{name}: {error.json_path}: {error.message}"
        for name in names
        for error in validator.iter_errors(
            read(name) if name in WORKFLOWS else json.loads((ROOT / name).read_text())
        )
    )


def test_zizmor_finds_nothing() -> None:
    command = [program("zizmor"), "--offline", "--no-progress", "--quiet", "--format", "plain"]
    done = subprocess.run(
        [*command, ".github"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_shellcheck_finds_nothing(tmp_path: Path) -> None:
    paths = [ROOT / ".ci" / "run"]
    for number, (name, step) in enumerate(steps()):
        if "run" in step:
            path = tmp_path / f"{name}-{number}.sh"
            path.write_text(f"#!/usr/bin/env bash\nset -eo pipefail\n{step['run']}\n")
            paths.append(path)
    done = subprocess.run(
        [program("shellcheck"), "--format=gcc", *map(str, paths)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _unpinned() -> Iterator[str]:
    versions: dict[str, set[str]] = {}
    for name, path in WORKFLOWS.items():
        for target, version in USES.findall(path.read_text()):
            if target.startswith("./"):
                continue
            action, _, commit = target.partition("@")
            versions.setdefault(action, set()).add(f"{commit} {version}")
            if not re.fullmatch(r"[0-9a-f]{40}", commit) or not re.fullmatch(r"v[\d.]+", version):
                yield f"{name}: {target}: needs a commit, and its version as a comment"
    yield from (f"{action}: has {found}" for action, found in versions.items() if len(found) > 1)


def test_each_action_is_pinned_to_one_commit() -> None:
    expect_none(_unpinned())


def _careless() -> Iterator[str]:
    for name in WORKFLOWS:
        workflow = read(name)
        if workflow["permissions"] != {} or "concurrency" not in workflow:
            yield f"{name}: needs `permissions: {{}}` and `concurrency`"
        # GitHub runs this shell, if it is named, with `-eo pipefail`.
        if workflow["defaults"] != {"run": {"shell": "bash"}}:
            yield f"{name}: needs `shell: bash`"
    for name, job in jobs():
        if "permissions" not in job:
            yield f"{name}: needs its own permissions"
        if "uses" not in job and "timeout-minutes" not in job:
            yield f"{name}: needs a time-out"
    for name, step in steps():
        kept = step.get("with", {}).get("persist-credentials", True)
        if "actions/checkout@" in step.get("uses", "") and kept is not False:
            yield f"{name}: needs `persist-credentials: false`"
        if "${{" in step.get("run", ""):
            yield f"{name}: a template inside of a script; pass it by `env`"


def test_each_job_has_few_rights_and_ends() -> None:
    expect_none(_careless())


def test_only_the_last_jobs_of_a_release_may_write() -> None:
    writing = {
        name: sorted(
            right for right, level in job.get("permissions", {}).items() if level != "read"
        )
        for name, job in jobs()
    }
    assert {name: rights for name, rights in writing.items() if rights} == {
        "codeql.analyse": ["security-events"],
        "release.image": ["packages"],
        "release.index": ["id-token", "packages"],
        "release.manifests": ["id-token", "packages"],
        "release.publish": ["attestations", "contents", "id-token"],
        "release.pypi": ["id-token"],
    }


def test_ci_runs_each_python_and_both_builds_in_one_pinned_image_each() -> None:
    matrix = read("ci")["jobs"]["test"]["strategy"]["matrix"]
    prefix = "Programming Language :: Python :: "
    named = [each.removeprefix(prefix) for each in PROJECT["project"]["classifiers"]]
    supported = [version for version in named if re.fullmatch(r"3\.\d+", version)]
    assert matrix["python"] == supported
    assert PROJECT["project"]["requires-python"] == f">={supported[0]}"
    built = PROJECT["tool"]["cibuildwheel"]["build"].split()
    assert built == [f"cp{version.replace('.', '')}-*" for version in supported]
    images = {row["python"]: row["image"] for row in matrix["include"] if "python" in row}
    assert [*images] == supported
    for version, image in images.items():
        assert re.fullmatch(rf"python:{version}-bookworm@sha256:[0-9a-f]{{64}}", image)
    page = (ROOT / "docs/releases.md").read_text()
    assert all(re.search(rf"^\| Python .*{version}\b.* \|", page, re.M) for version in supported)
    targets = {row["build"]: row["target"] for row in matrix["include"] if "build" in row}
    assert targets == dict(zip(matrix["build"], ["test", "test-compiled"], strict=True))


def test_scripts_call_targets_that_make_has() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    calls = [
        word for _, step in steps() for word in re.findall(r"^make (.+)$", step.get("run", ""))
    ]
    called = {word for call in calls for word in re.findall(r"(?<!\S)[a-z-]+(?!\S)", call)}
    assert {"dist", "sbom", "install-yaml", "chart"} <= called <= targets


def test_a_release_needs_the_tests_and_all_of_its_parts() -> None:
    release = read("release")["jobs"]
    assert release["test"]["uses"] == "./.github/workflows/ci.yml"

    def before(job: str) -> set[str]:
        needs = release[job].get("needs", [])
        direct = {needs} if isinstance(needs, str) else set(needs)
        return direct.union(*map(before, direct))

    assert before("publish") == release.keys() - {"publish", "pypi"}
    assert all("test" in before(job) for job in release.keys() - {"check", "test"})


def test_the_image_has_its_bill_of_materials_and_provenance() -> None:
    (build,) = (
        step["with"]
        for name, step in steps()
        if name == "release.image" and "build-push-action" in step.get("uses", "")
    )
    assert build["sbom"] is True
    assert build["provenance"] == "mode=max"
    matrix = read("release")["jobs"]["image"]["strategy"]["matrix"]["include"]
    assert [row["arch"] for row in matrix] == ["amd64", "arm64"]


def test_renovate_finds_the_images_that_are_pinned() -> None:
    """Renovate's own syntax of groups is JavaScript's: ``(?<name>…)``."""
    managers = json.loads((ROOT / "renovate.json").read_text())["customManagers"]
    found = {}
    for manager in managers:
        (file,) = manager["managerFilePatterns"]
        (path,) = (
            path
            for path in (ROOT / "Dockerfile", WORKFLOWS["ci"])
            if re.search(file.strip("/"), path.relative_to(ROOT).as_posix())
        )
        (pattern,) = manager["matchStrings"]
        pattern = pattern.replace("(?<", "(?P<")
        found[path.name] = len(re.findall(pattern, path.read_text()))
    assert found == {"Dockerfile": 1, "ci.yml": 4}
