"""Which files of a folder count, and which of their states."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from activator.discovery.manifest_file import ManifestFiles, Reading, digest_of, read
from tests.activator.discovery.recording import private, revision


def write(path: Path, *objects: Any) -> Reading:
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))
    return read(path)


@pytest.fixture
def files(tmp_path: Path) -> ManifestFiles:
    return ManifestFiles(tmp_path, settle=0.0, settle_limit=60.0)


def test_only_visible_manifests_of_the_folder_count(tmp_path: Path, files: ManifestFiles) -> None:
    (tmp_path / "sub").mkdir()
    for name in (
        "b.yaml",
        "a.json",
        "c.yml",
        ".a.yaml",
        "#a.yaml",
        "~a.yaml",
        "a.txt",
        "sub/a.yml",
    ):
        (tmp_path / name).write_text("")
    (tmp_path / "gone.yaml").symlink_to(tmp_path / "missing")
    assert list(files.names()) == ["a.json", "b.yaml", "c.yml"]


def test_a_larger_file_counts_at_once_and_a_smaller_one_when_it_is_read_again(
    tmp_path: Path, files: ManifestFiles
) -> None:
    path = tmp_path / "a.json"
    one, two = revision("one"), revision("two")
    files.consider("a.json", write(path, one))
    files.consider("a.json", write(path, one, two))
    assert [key.name for key in files["a.json"].objects] == ["one", "two"]
    shorter = write(path, one)
    files.consider("a.json", shorter)
    assert len(files["a.json"].objects) == 2
    assert not files.is_settled
    files.consider("a.json", shorter)
    assert len(files["a.json"].objects) == 1
    assert files.is_settled


def test_a_broken_file_keeps_its_objects_and_a_missing_one_is_removed_after_a_second_look(
    tmp_path: Path, files: ManifestFiles
) -> None:
    path = tmp_path / "a.json"
    files.consider("a.json", write(path, revision("one")))
    path.write_text("{")
    for _ in range(2):
        files.consider("a.json", read(path))
    assert files["a.json"].reading.error
    assert list(files.holders().values()) == [["a.json"]]
    files.consider("a.json", Reading(None))
    assert files["a.json"].vanished
    files.consider("a.json", Reading(None))
    assert len(files) == 0


def test_a_folder_that_cannot_be_read_has_an_explanation(tmp_path: Path) -> None:
    for path, text in ((tmp_path / "no", "create it or name another one"), (__file__, "is no fol")):
        files = ManifestFiles(Path(path), 0.0, 0.0)
        with pytest.raises(OSError, match=r"No such|Not a") as caught:
            files.names()
        assert text in files.explain(caught.value)


def test_a_file_tells_its_objects_and_what_is_twice_in_it(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(yaml.safe_dump_all([revision(), private("10.0.0.1"), revision()]))
    reading = read(path)
    assert sorted(key.kind for key in reading.objects) == ["Endpoints", "Revision"]
    assert reading.error == ""
    (double,) = reading.duplicates
    assert "is already on line 1" in double


def test_a_broken_file_tells_where_and_one_that_is_gone_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"kind": ')
    broken = read(path)
    assert broken.error
    assert broken.objects == {}
    path.unlink()
    assert read(path).signature is None


def test_the_digest_is_of_the_bytes_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("kind: A\n")
    first = read(path)
    path.write_text("kind: A\n")
    assert read(path).digest == first.digest == digest_of(path)
    path.write_text("kind: [\n")
    assert read(path).digest == digest_of(path) != first.digest
    path.unlink()
    assert digest_of(path) == b""
