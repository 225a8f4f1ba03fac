"""The chart of a release: its default image is the image of that release."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

sys.path.append(str(Path(__file__).parents[2] / "backend"))

import chart

VALUES = (Path(__file__).parents[2] / chart.CHART / "values.yaml").read_text()
DIGEST = f"sha256:{'7' * 64}"


def test_only_the_image_changes():
    before, after = (
        yaml.safe_load(text) for text in (VALUES, chart.with_image(VALUES, f"r.example/a@{DIGEST}"))
    )
    assert before["image"]["repository"] == ""
    assert after.pop("image") == before.pop("image") | {
        "repository": "r.example/a",
        "digest": DIGEST,
    }
    assert after == before


@pytest.mark.parametrize(
    ("values", "image", "error"),
    [
        (VALUES, "r.example/a:1.2.3", "has no digest"),
        (VALUES, "r.example/a@sha256:7", "has the digest 'sha256:7'"),
        ("image:\n  tag: x\n", f"r.example/a@{DIGEST}", "no empty key image.repository"),
        ('image:\n  repository: ""\nother:\n  digest: ""\n', f"a@{DIGEST}", "key image.digest"),
    ],
)
def test_an_image_without_a_digest_and_other_values_are_refused(values, image, error):
    with pytest.raises(SystemExit, match=error):
        chart.with_image(values, image)


@pytest.mark.parametrize(
    ("image", "line"),
    [
        ([], "Default image: none, so that its users must set image.repository\n"),
        ([f"r.example/a@{DIGEST}"], f"Default image: r.example/a@{DIGEST}\n"),
    ],
)
def test_the_output_names_the_default_image(image, line, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(Path(__file__).parents[2])
    monkeypatch.setattr(chart, "INPUT", tmp_path / "input")
    chart.main("true", tmp_path, *image)
    assert capsys.readouterr().out.endswith(line)
