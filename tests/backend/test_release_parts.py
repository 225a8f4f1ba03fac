"""The image of a release, and programs that are missing or fail."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.rows import in_one_test

sys.path.append(str(Path(__file__).parents[2] / "backend"))

import release_parts

ROOT = Path(__file__).parents[2]
DIGEST = f"sha256:{'7' * 64}"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("activator", ("activator", "", "")),
        ("localhost:5000/a", ("localhost:5000/a", "", "")),
        ("localhost:5000/a:v1.2_x", ("localhost:5000/a", "v1.2_x", "")),
        ("Registry.example/o-w/a__b:1", ("Registry.example/o-w/a__b", "1", "")),
        (f"r.example/a:1.2@{DIGEST}", ("r.example/a", "1.2", DIGEST)),
    ],
)
def test_an_image_has_a_name_a_tag_and_a_digest(text, parts):
    assert release_parts.image(text) == parts


@in_one_test(
    ("text", "error"),
    [
        ("", "'' is not the name of an image"),
        (":1.0", "'' is not the name"),
        ("https://r.example/a:1", "'https://r.example/a' is not .* without https://"),
        ("r.example/OWNER/a:1", "'r.example/OWNER/a' is not .* in lower case"),
        ("a b:1", "'a b' is not"),
        ("r.example/a:", "tag ''"),
        ("r.example/a:-1", "tag '-1'"),
        ("r.example/a@", "digest ''"),
        ("r.example/a@sha256:77", "digest 'sha256:77'"),
        ("r.example/a@sha256:…", "digest 'sha256:…'"),
    ],
)
def test_an_image_that_cannot_exist_is_refused(text, error):
    with pytest.raises(SystemExit, match=error):
        release_parts.image(text)


def test_a_missing_program_is_looked_for_in_the_path(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match="helm is missing: repeat with network, or install helm"):
        release_parts.program("tools/helm")
    other = tmp_path / "helm"
    other.touch(0o755)
    assert release_parts.program("tools/helm") == str(other)
    assert capsys.readouterr().out == f"tools/helm is missing: using {other}\n"
    assert release_parts.program(sys.executable) == sys.executable


def test_a_program_that_fails_is_named_with_its_status():
    command = [sys.executable, "-c", "raise SystemExit(3)"]
    with pytest.raises(SystemExit, match="failed with status 3"):
        release_parts.output(command)


@pytest.mark.parametrize("script", ["chart", "install_yaml"])
@pytest.mark.parametrize("image", ["", "a:1 b"])
def test_make_passes_the_image_as_one_word(script, image):
    """An unset variable, or a blank, was a traceback or the name of another folder."""
    command = ["make", "--dry-run", "--always-make", script.replace("_", "-"), f"IMAGE={image}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    line = next(each for each in done.stdout.splitlines() if f"backend/{script}.py" in each)
    assert f" '{image}'" in line
