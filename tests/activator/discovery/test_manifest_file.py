"""One read of a file; test_manifests.py tests folders."""

from __future__ import annotations

from pathlib import Path

import yaml

from activator.discovery.manifest_file import digest_of, read
from tests.activator.discovery.recording import private, revision


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
