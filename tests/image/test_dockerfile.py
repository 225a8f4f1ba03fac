"""The image as far as it can be judged by reading: what `make image-proof` does takes minutes."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from activator.settings.config import load
from tests.image.dockerfile import ROOT, Copy, Run, Stage, UnsupportedError, read
from tests.manifests import knative

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
HINT = "run `make lock`"


@pytest.fixture(scope="module")
def stages() -> list[Stage]:
    return read((ROOT / "Dockerfile").read_text())


def locked(name: str) -> dict[str, str]:
    """Versions by package; each must come with a hash."""
    entries = (ROOT / name).read_text().replace("\\\n", " ").splitlines()
    found: dict[str, str] = {}
    for entry in entries:
        if entry and not entry.startswith("#"):
            requirement, *hashes = entry.split(" --hash=")
            assert hashes, f"{requirement} in {name} has no hash: {HINT}"
            parsed = Requirement(requirement)
            (version,) = parsed.specifier
            found[canonicalize_name(parsed.name)] = version.version
    return found


def build_requirements() -> list[str]:
    """Return what a compiled build requires, as ``make lock`` reads it."""
    command = [sys.executable, "-W", "ignore", "backend/requirements.py"]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()


@pytest.mark.parametrize(
    ("lock", "wanted"),
    [
        ("requirements.lock", PROJECT["project"]["dependencies"]),
        ("requirements-build.lock", build_requirements()),
    ],
)
def test_the_lock_satisfies_the_project(lock: str, wanted: list[str]) -> None:
    versions = locked(lock)
    for requirement in map(Requirement, wanted):
        name = canonicalize_name(requirement.name)
        assert name in versions, f"{name} is missing in {lock}: {HINT}"
        assert versions[name] in requirement.specifier, f"{name} in {lock} is too old: {HINT}"


def test_the_lock_holds_what_the_dependencies_need() -> None:
    """As the installed packages say it; pip refuses a lock with hashes that lacks one."""
    versions = locked("requirements.lock")
    environment = {key: str(value) for key, value in default_environment().items()}
    for package in versions:
        try:
            needs = [Requirement(line) for line in requires(package) or []]
        except PackageNotFoundError:  # of another platform
            continue
        for need in needs:
            if need.marker is None or need.marker.evaluate({**environment, "extra": ""}):
                name = canonicalize_name(need.name)
                assert name in versions, f"{package} needs {name}: {HINT}"


def test_the_base_image_has_a_full_version_and_a_digest(stages: list[Stage]) -> None:
    """A shorter tag would be another image next month, and any tag may move."""
    (image,) = {stage.base for stage in stages}
    reference, _, digest = image.partition("@")
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", digest), image
    name, _, tag = reference.partition(":")
    assert name == "python"
    version = tag.split("-")[0]
    assert version.count(".") == 2, f"{image}: which patch release?"
    assert tuple(map(int, version.split("."))) >= (3, 11, 0)


def test_packages_come_by_hash_and_nothing_else_is_fetched(stages: list[Stage]) -> None:
    build, final = stages
    installs = [
        part
        for step in build.steps
        if isinstance(step, Run)
        for part in step.command.split("&&")
        if part.strip().startswith("pip ")
    ]
    assert installs
    for command in installs:
        offline = "--no-index" in command or "--no-build-isolation" in command
        assert "--require-hashes" in command or offline, command
    assert not [step for step in final.steps if isinstance(step, Run)], "the second stage copies"


def test_the_build_stage_compiles_and_the_final_one_has_no_compiler(stages: list[Stage]) -> None:
    build, final = stages
    commands = [step for step in build.steps if isinstance(step, Run)]
    assert any("gcc" in step.command for step in commands)
    (wheel,) = (step for step in commands if "pip" in step.command and " wheel " in step.command)
    assert wheel.environment["ACTIVATOR_COMPILE"] == "1"
    assert "ACTIVATOR_COMPILE" not in final.environment


def test_the_final_stage_is_a_plain_user_and_runs_the_activator(stages: list[Stage]) -> None:
    final = stages[-1]
    assert final.user == "65532:65532"
    assert [*final.entrypoint, *final.command] == ["activator", "run"]
    assert final.stop_signal == "SIGTERM"
    assert final.environment["PYTHONDONTWRITEBYTECODE"] == "1"


def test_exposed_ports_are_those_of_knatives_service(stages: list[Stage]) -> None:
    settings = load("run", {}, knative.ENVIRONMENT, resolv_conf=Path("/nowhere"))
    ports = [settings.http_port, settings.h2c_port, settings.https_port]
    ports += [settings.profiling_port, settings.metrics_port]
    assert stages[-1].ports == ports


def test_the_build_context_holds_what_is_copied_and_no_more(stages: list[Stage]) -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    taken = {rule[1:] for rule in rules if rule.startswith("!")}
    copied = {
        source
        for stage in stages
        for step in stage.steps
        if isinstance(step, Copy) and not step.stage
        for source in step.sources
    }
    assert rules[0] == "*"
    assert taken == copied
    # The tests of the compiled build have no source of the packages beside them.
    assert all((ROOT / path).exists() or find_spec(path) for path in copied)


def test_the_reader_refuses_what_it_does_not_know() -> None:
    for line in ("VOLUME /tmp", "RUN --mount=type=cache x", "COPY --chown=1 a b", "ADD a b"):
        with pytest.raises(UnsupportedError):
            read(f"FROM python:3.11.1\n{line}\n")


def test_the_reader_joins_lines_and_fills_in_variables() -> None:
    (stage,) = read(
        'ARG IMAGE=python:3.12.1\nFROM ${IMAGE} AS one\nENV A=1 B="two words"\n'
        "ENV PATH=/a:$PATH\nWORKDIR /w\n# between\nRUN a \\\n    # inside\n    && b\nCOPY x y ./\n"
    )
    assert (stage.base, stage.name) == ("python:3.12.1", "one")
    assert stage.environment["B"] == "two words"
    assert stage.environment["PATH"].startswith("/a:/usr/local/sbin")
    assert [step.command.split() for step in stage.steps if isinstance(step, Run)] == [
        ["mkdir", "-p", "/w"],
        ["a", "&&", "b"],
    ]
    assert stage.steps[-1] == Copy("", ("x", "y"), "/w")
