from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from activator.discovery import backoff, manifest_file, manifests
from activator.discovery.inventory import Inventory
from activator.discovery.manifest_file import MAX_FILE_BYTES
from activator.discovery.manifests import FolderTimings, ManifestFolder, ManifestFolderError
from activator.discovery.service_kinds import ServicesDialect
from activator.records.source_status import FilesStatus
from tests.activator.discovery.recording import (
    A,
    B,
    RecordingSink,
    private,
    revision,
    secret,
    service,
    slice_of,
    trust_bundle,
)
from tests.activator.plain.objects import service as service_object
from tests.conftest import on_uvloop
from tests.process import PATIENCE

pytestmark = on_uvloop  # inotify reports files in real time


@pytest.fixture
def folder(tmp_path: Path, inventory: Inventory) -> ManifestFolder:
    return ManifestFolder(tmp_path, inventory)


def test_slices_services_secrets_and_trust_bundles_are_read_from_files(
    folder: ManifestFolder, sink: RecordingSink, tmp_path: Path
) -> None:
    write(tmp_path / "a.yaml", revision(), service(), slice_of("10.0.0.1"))
    write(tmp_path / "b.yaml", secret("certs", a=b"1"), trust_bundle("bundle", "PEM"))
    folder.load()
    assert folder.errors == {}
    assert sink.ready() == ["10.0.0.1:8012"]
    assert set(sink.services) == {A}
    assert sink.secrets == {"certs": {"a": b"1"}}
    assert sink.trust_bundles == ("PEM",)


def test_a_secret_that_is_broken_is_named_and_not_shown(
    folder: ManifestFolder, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path / "a.yaml", secret("certs") | {"data": {"tls.key": "hunter2"}})
    folder.load()
    (problem,) = folder.errors.values()
    assert "line 1: Secret knative-serving/certs: data[tls.key]: expected base64" in problem
    assert "hunter2" not in problem + caplog.text


def write(path: Path, *objects: Any) -> None:
    path.write_text(yaml.safe_dump_all(objects))


@asynccontextmanager
async def running(folder: ManifestFolder) -> AsyncIterator[None]:
    folder.load()
    task = asyncio.get_running_loop().create_task(folder.run())
    try:
        yield
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def _is_ready(sink: RecordingSink, addresses: list[str]) -> bool:
    return sink.ready() == addresses


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        # The kernel and a thread decide when; there is no event to wait for.
        while not condition():  # noqa: ASYNC110 # files have no event to wait for
            await asyncio.sleep(0.001)


def test_all_files_are_read_at_start(
    tmp_path: Path, folder: ManifestFolder, sink: RecordingSink
) -> None:
    write(tmp_path / "a.yaml", revision("a"), None, private("10.0.0.1"))
    (tmp_path / "b.json").write_text(json.dumps(revision("b")))
    write(tmp_path / "c.yml", {"kind": "List", "items": [private("10.0.0.2", of="b")]})
    write(tmp_path / ".hidden.yaml", revision("c"))
    write(tmp_path / "a.yaml~", revision("d"))
    write(tmp_path / "notes.txt", revision("e"))
    (tmp_path / "folder.yaml").mkdir()
    folder.load()
    assert set(sink.revisions) == {A, B}
    assert sink.ready(A) == ["10.0.0.1:8012"]
    assert sink.ready(B) == ["10.0.0.2:8012"]
    assert folder.errors == {}


def test_lists_of_one_kind_need_not_repeat_it(
    tmp_path: Path, folder: ManifestFolder, sink: RecordingSink
) -> None:
    item = private("10.0.0.1")
    del item["kind"], item["apiVersion"]
    write(tmp_path / "a.yaml", {"apiVersion": "v1", "kind": "EndpointsList", "items": [item]})
    folder.load()
    assert sink.ready() == ["10.0.0.1:8012"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "does not exist: create it or name another one"),
        (lambda path: path.write_text(""), "is no folder"),
    ],
)
def test_a_folder_that_is_none_is_a_clear_error(
    make: Callable[[Path], object], message: str, tmp_path: Path, inventory: Inventory
) -> None:
    make(tmp_path / "x")
    with pytest.raises(ManifestFolderError, match=message) as caught:
        ManifestFolder(tmp_path / "x", inventory).load()
    assert str(tmp_path / "x") in str(caught.value)


def test_a_broken_file_is_reported_with_its_place_and_stops_no_other(
    tmp_path: Path, folder: ManifestFolder, sink: RecordingSink
) -> None:
    (tmp_path / "a.yaml").write_text("kind: Revision\nmetadata: [\n")
    write(tmp_path / "b.yaml", private("10.0.0.1"))
    folder.load()
    assert sink.ready() == ["10.0.0.1:8012"]
    assert list(folder.errors) == [str(tmp_path / "a.yaml")]
    assert "line 3, column 1" in folder.errors[str(tmp_path / "a.yaml")]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("- 1\n", "line 1, column 1: no Kubernetes object: it has no `kind`"),
        ("{}\n", "it has no `kind`"),
        ("kind: Revision\n", "Revision default/?: metadata.name: expected a name, got nothing"),
        ("kind: List\nitems: {}\n", "`items` of this List is no list"),
        ("kind: List\nitems: [5]\n", "an item of this List is no object"),
    ],
)
def test_what_is_no_object_is_reported(
    text: str, reason: str, tmp_path: Path, folder: ManifestFolder
) -> None:
    (tmp_path / "a.yaml").write_text(text)
    folder.load()
    assert reason in folder.errors[str(tmp_path / "a.yaml")]


def test_a_broken_object_is_reported_with_its_line_and_stops_no_other_of_the_file(
    tmp_path: Path, folder: ManifestFolder, sink: RecordingSink
) -> None:
    write(tmp_path / "a.yaml", revision(timeoutSeconds=-1), private("10.0.0.1"))
    folder.load()
    assert sink.ready() == ["10.0.0.1:8012"]
    problem = folder.errors[str(tmp_path / "a.yaml")]
    assert problem.startswith(
        "line 1: Revision default/a: spec.timeoutSeconds: expected an integer"
    )
    assert problem.endswith("; it is not in use")


async def test_each_broken_object_of_a_file_has_one_line_until_it_changes(
    tmp_path: Path, folder: ManifestFolder, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.yaml"
    write(path, revision("a", timeoutSeconds=-1), revision("b", timeoutSeconds=-2))
    folder.load()
    lines = [
        f"line {line}: Revision default/{name}: spec.timeoutSeconds: expected an integer"
        for line, name in ((1, "a"), (9, "b"))
    ]
    found = folder.errors[str(path)].split("\n")
    assert [each.partition(" from")[0] for each in found] == lines
    assert len(caplog.messages) == 2
    write(path, revision("a", timeoutSeconds=-1), revision("b", timeoutSeconds=-3))
    await folder.scan()
    [*_, last] = caplog.messages
    assert (len(caplog.messages), last.endswith("got -3; it is not in use")) == (3, True)


async def test_a_wrong_policy_of_a_new_file_has_its_default(
    tmp_path: Path, folder: ManifestFolder, sink: RecordingSink
) -> None:
    wrong = {"activator.dev/while-waiting": "banner", "activator.dev/readiness-policy": "maybe"}
    obj = revision(containerConcurrency=3)
    obj["metadata"]["annotations"] = wrong
    write(tmp_path / "a.yaml", obj, private("10.0.0.1"))
    folder.load()
    assert (sink.revisions[A].container_concurrency, sink.ready()) == (3, ["10.0.0.1:8012"])
    problem = folder.errors[str(tmp_path / "a.yaml")]
    assert all(f"[{name}]: expected" in problem for name in wrong)
    end = "; it has no last good state, so each wrong annotation has a safe default"
    assert problem.endswith(end)


async def test_kinds_of_a_dialect_that_is_off_are_named_and_stop_nothing(
    tmp_path: Path, folder: ManifestFolder, sink: RecordingSink, caplog: pytest.LogCaptureFixture
) -> None:
    route = {"kind": "InterceptorRoute", "apiVersion": "http.keda.sh/v1beta1"}
    write(tmp_path / "a.yaml", revision(), private("10.0.0.1"), route | {"metadata": {"name": "r"}})
    folder.load()
    assert (folder.errors, sink.ready()) == ({}, ["10.0.0.1:8012"])
    (text,) = caplog.messages
    assert "InterceptorRoute (line " in text
    assert text.endswith(") is ignored: only --dialect keda reads this kind")
    (tmp_path / "a.yaml").unlink()
    folder.load()
    assert folder.errors == {}


async def test_kinds_that_nothing_reads_are_named_once_and_are_no_error(
    tmp_path: Path, folder: ManifestFolder, sink: RecordingSink, caplog: pytest.LogCaptureFixture
) -> None:
    companions = [{"kind": "Namespace"}, {"kind": "Ingress", "apiVersion": "networking.k8s.io/v1"}]
    write(tmp_path / "quiet.yaml", private("10.0.0.1"), *companions)
    unknown = [
        {"kind": "Revison", "apiVersion": "serving.knative.dev/v1"},
        {"kind": "Service", "apiVersion": "serving.knative.dev/v1"},
        {"kind": "Revison", "apiVersion": "serving.knative.dev/v1"},
        {
            "kind": "List",
            "items": [{"kind": "Pod\r\n"}, {"kind": "c"}, {"kind": "d"}, {"kind": "e"}],
        },
    ]
    write(tmp_path / "a.yaml", revision(), *unknown)
    folder.load()
    assert (folder.errors, sink.ready()) == ({}, ["10.0.0.1:8012"])
    (text,) = caplog.messages
    what = "objects of these kinds are ignored: 'serving.knative.dev/v1 Revison' (line "
    assert text.startswith(f"{tmp_path / 'a.yaml'}: {what}")
    for part in (
        "'serving.knative.dev/v1 Service' (line ",
        "'Pod\\r\\n' (line ",
        "'d' (line ",
    ):
        assert part in text
    assert text.endswith(
        "; the known kinds are ConfigMap, Deployment, EndpointSlice, Endpoints, "
        "HTTPScaledObject, InterceptorRoute, Revision, Secret, Service, StatefulSet"
    )
    async with running(folder):
        write(tmp_path / "b.yaml", private("10.0.0.2", of="b"), *companions)
        await until(lambda: sink.ready(B))
        assert caplog.messages == [text]
        write(tmp_path / "a.yaml", revision(), {"kind": "Pod"})
        await until(lambda: len(caplog.messages) > 1)
    assert "ignored: 'Pod' (line " in caplog.messages[1]


async def test_only_an_object_that_was_good_once_has_a_last_good_state(
    tmp_path: Path, folder: ManifestFolder, sink: RecordingSink
) -> None:
    write(tmp_path / "a.yaml", private("10.0.0.1"))
    async with running(folder):
        write(tmp_path / "a.yaml", private("nonsense"))
        await until(lambda: folder.errors)
        problem = folder.errors[str(tmp_path / "a.yaml")]
        assert problem.endswith("; its last good state stays in force")
        assert sink.ready() == ["10.0.0.1:8012"]


def test_a_file_that_is_too_large_is_reported(tmp_path: Path, folder: ManifestFolder) -> None:
    with open(tmp_path / "a.yaml", "wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    folder.load()
    assert "larger than" in folder.errors[str(tmp_path / "a.yaml")]


def test_the_same_object_in_two_files_stays_that_of_the_first(
    tmp_path: Path, folder: ManifestFolder, sink: RecordingSink
) -> None:
    write(tmp_path / "a.yaml", private("10.0.0.1"))
    write(tmp_path / "b.yaml", revision(), private("10.0.0.2"))
    folder.load()
    assert sink.ready() == ["10.0.0.1:8012"]
    assert set(sink.revisions) == {A}
    error = folder.errors[str(tmp_path / "b.yaml")]
    assert "Endpoints default/a-private is also in a.yaml, which stays" in error


async def test_an_object_in_force_stays_that_of_its_file_when_an_earlier_name_appears(
    tmp_path: Path, folder: ManifestFolder, sink: RecordingSink
) -> None:
    write(tmp_path / "b.yaml", private("10.0.0.2"))
    async with running(folder):
        write(tmp_path / "a.yaml", revision(), private("10.0.0.1"))
        await until(lambda: folder.errors)
        (path, error), *more = folder.errors.items()
        assert path == str(tmp_path / "a.yaml")
        assert "Endpoints default/a-private is also in b.yaml, which stays in force" in error
        assert not more
        write(tmp_path / "b.yaml", private("10.0.0.3"))
        await until(lambda: sink.ready() != ["10.0.0.2:8012"])
    assert sink.ready() == ["10.0.0.3:8012"]
    assert set(sink.revisions) == {A}


def test_the_same_object_twice_in_a_file_stays_the_first(
    tmp_path: Path, folder: ManifestFolder, sink: RecordingSink
) -> None:
    write(tmp_path / "a.yaml", private("10.0.0.1"), private("10.0.0.2"))
    folder.load()
    assert sink.ready() == ["10.0.0.1:8012"]
    assert "is already on line 1" in folder.errors[str(tmp_path / "a.yaml")]


async def test_changes_are_noticed(
    tmp_path: Path, folder: ManifestFolder, sink: RecordingSink
) -> None:
    write(tmp_path / "a.yaml", private("10.0.0.1"))
    async with running(folder):
        write(tmp_path / "a.yaml", private("10.0.0.2"))
        await until(lambda: sink.ready() == ["10.0.0.2:8012"])
        write(tmp_path / "b.yaml", private("10.0.0.3", of="b"))
        await until(lambda: B in sink.endpoints)
        (tmp_path / "a.yaml").unlink()
        await until(lambda: sink.ready() == [])
        assert sink.ready(B) == ["10.0.0.3:8012"]
    assert folder.errors == {}


async def test_an_older_dump_of_the_same_object_counts(
    tmp_path: Path, folder: ManifestFolder, sink: RecordingSink
) -> None:
    write(tmp_path / "a.yaml", private("10.0.0.2", uid="u", version="20"))
    async with running(folder):
        write(tmp_path / "a.yaml", private("10.0.0.1", uid="u", version="10"))
        await until(lambda: sink.ready() == ["10.0.0.1:8012"])


async def test_a_renamed_file_takes_its_objects_along_without_a_gap(
    tmp_path: Path, folder: ManifestFolder, sink: RecordingSink
) -> None:
    write(tmp_path / "a.yaml", private("10.0.0.1"))
    async with running(folder):
        (tmp_path / "a.yaml").rename(tmp_path / "z.yaml")
        await until(lambda: set(folder._files) == {"z.yaml"})
        write(tmp_path / "z.yaml", private("10.0.0.2"))
        await until(lambda: sink.ready() == ["10.0.0.2:8012"])
    assert [] not in [call[2] for call in sink.calls]


async def test_an_editor_that_replaces_the_file_causes_no_gap(
    tmp_path: Path, folder: ManifestFolder, sink: RecordingSink
) -> None:
    write(tmp_path / "a.yaml", private("10.0.0.1"))
    async with running(folder):
        for last in range(2, 6):
            write(tmp_path / ".a.yaml.swp", private(f"10.0.0.{last}"))
            (tmp_path / ".a.yaml.swp").replace(tmp_path / "a.yaml")
            expected = [f"10.0.0.{last}:8012"]
            await until(partial(_is_ready, sink, expected))
    assert [] not in [call[2] for call in sink.calls]


async def test_a_file_that_is_emptied_and_then_written_causes_no_gap(
    tmp_path: Path, inventory: Inventory, sink: RecordingSink
) -> None:
    folder = ManifestFolder(tmp_path, inventory, FolderTimings(settle=0.3))
    write(tmp_path / "a.yaml", private("10.0.0.1"), private("10.0.0.5", of="b"))
    async with running(folder):
        (tmp_path / "a.yaml").write_text("")
        await until(lambda: folder._files["a.yaml"].unconfirmed)
        write(tmp_path / "a.yaml", private("10.0.0.2"), private("10.0.0.5", of="b"))
        await until(lambda: sink.ready() == ["10.0.0.2:8012"])
    assert [] not in [call[2] for call in sink.calls]


async def test_objects_that_leave_a_file_are_removed(
    tmp_path: Path, folder: ManifestFolder, sink: RecordingSink
) -> None:
    write(tmp_path / "a.yaml", private("10.0.0.1"), private("10.0.0.5", of="b"))
    async with running(folder):
        write(tmp_path / "a.yaml", private("10.0.0.1"))
        await until(lambda: sink.ready(B) == [])
        (tmp_path / "a.yaml").write_text("")
        await until(lambda: sink.ready(A) == [])


async def test_a_file_that_breaks_keeps_its_last_good_state_until_it_is_corrected(
    tmp_path: Path, folder: ManifestFolder, sink: RecordingSink
) -> None:
    path = tmp_path / "a.yaml"
    write(path, private("10.0.0.1"))
    async with running(folder):
        path.write_text("kind: [")
        await until(lambda: folder.errors)
        assert "the last good state of this file stays" in folder.errors[str(path)]
        assert sink.ready() == ["10.0.0.1:8012"]
        write(tmp_path / "b.yaml", private("10.0.0.3", of="b"))
        await until(lambda: B in sink.endpoints)
        write(path, private("10.0.0.2"))
        await until(lambda: sink.ready() == ["10.0.0.2:8012"])
        await until(lambda: not folder.errors)


async def test_of_a_file_that_was_broken_from_the_first_nothing_is_in_force(
    tmp_path: Path, folder: ManifestFolder
) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("kind: [")
    async with running(folder):
        assert folder.errors[str(path)].endswith("; the file has no effect")


async def test_a_broken_file_is_reported_without_the_errors_of_its_objects(
    tmp_path: Path, folder: ManifestFolder
) -> None:
    path = tmp_path / "a.yaml"
    write(path, revision(timeoutSeconds=-1))
    async with running(folder):
        assert "spec.timeoutSeconds" in folder.errors[str(path)]
        path.write_text("kind: [")
        await until(lambda: "last good state of this file" in folder.errors[str(path)])
        assert "spec.timeoutSeconds" not in folder.errors[str(path)]


async def test_a_broken_file_has_only_the_warnings_of_its_last_good_state(
    tmp_path: Path, sink: RecordingSink
) -> None:
    folder = ManifestFolder(tmp_path, Inventory(sink, sink, dialects=(ServicesDialect,)))
    path, lonely = tmp_path / "a.json", service_object()
    path.write_text(json.dumps(lonely))
    async with running(folder):
        assert reasons(folder) == ["no-scalable-target"]
        path.write_text(json.dumps(service_object({"probe": "exec"})))
        await until(lambda: reasons(folder) == ["invalid", "no-scalable-target"])
        path.write_text("kind: [")
        await until(lambda: reasons(folder) == ["no-scalable-target"])
        [warning] = folder.status(0.0).warnings
        assert warning.text.endswith(" (in the last good state of a.json)")
        path.write_text(json.dumps(lonely))
        await until(lambda: not folder.errors)
        assert "last good" not in folder.status(0.0).warnings[0].text


def reasons(folder: ManifestFolder) -> list[str]:
    return [each.reason for each in folder.status(0.0).warnings]


async def test_when_the_first_file_goes_the_second_ones_object_comes_into_force(
    tmp_path: Path, folder: ManifestFolder, sink: RecordingSink
) -> None:
    write(tmp_path / "a.yaml", private("10.0.0.1"))
    write(tmp_path / "b.yaml", private("10.0.0.2"))
    async with running(folder):
        (tmp_path / "a.yaml").unlink()
        await until(lambda: sink.ready() == ["10.0.0.2:8012"])
        await until(lambda: not folder.errors)
    assert [] not in [call[2] for call in sink.calls]


@pytest.mark.untraced  # long when traced
async def test_other_tasks_run_while_many_files_change_at_once(
    tmp_path: Path,
    folder: ManifestFolder,
    sink: RecordingSink,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    count, turn = 300, 0
    reads: set[int] = set()
    applied: set[int] = set()
    set_revision, read = sink.set_revision, manifest_file.read

    def noted_read(path: Path) -> Any:
        reads.add(turn)
        return read(path)

    def noted_set(revision: Any) -> None:
        applied.add(turn)
        set_revision(revision)

    async def count_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    for n in range(count):
        write(tmp_path / f"{n}.yaml", revision(f"app-{n}"))
    async with running(folder):
        counting = asyncio.ensure_future(count_turns())
        monkeypatch.setattr(manifest_file, "read", noted_read)
        monkeypatch.setattr(sink, "set_revision", noted_set)
        monkeypatch.setattr(backoff, "PIECE", 0.0)
        for n in range(count):
            write(tmp_path / f"{n}.yaml", revision(f"app-{n}") | {"spec": {"timeoutSeconds": 7}})
        await until(lambda: all(one.timeout == 7 for one in sink.revisions.values()))
        counting.cancel()
    assert len(reads) >= count
    assert len(applied) >= count


async def test_a_file_that_is_deleted_while_it_is_broken_is_reported_as_deleted(
    tmp_path: Path, folder: ManifestFolder, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    broken, mended = tmp_path / "a.yaml", tmp_path / "b.yaml"
    broken.write_text("kind: [")
    mended.write_text("kind: [")
    async with running(folder):
        broken.unlink()
        write(mended, revision())
        await until(lambda: f"{broken}: deleted, no longer an error" in caplog.messages)
        await until(lambda: f"{mended}: valid again" in caplog.messages)
    assert folder.errors == {}


async def test_a_folder_that_comes_back_is_watched_long_before_the_next_regular_scan(
    tmp_path: Path, inventory: Inventory, sink: RecordingSink
) -> None:
    path, aside = tmp_path / "manifests", tmp_path / "aside"
    path.mkdir()
    write(path / "a.yaml", private("10.0.0.1"))
    folder = ManifestFolder(path, inventory, FolderTimings(rescan=3600.0))
    async with running(folder):
        path.rename(aside)
        await until(lambda: folder.errors)
        aside.rename(path)
        await until(lambda: not folder.errors)
        write(path / "a.yaml", private("10.0.0.2"))
        await until(lambda: sink.ready() == ["10.0.0.2:8012"])


async def test_a_mounted_config_map_is_followed_through_its_links(
    tmp_path: Path, folder: ManifestFolder, sink: RecordingSink
) -> None:
    def publish(version: str, ip: str) -> None:
        (tmp_path / version).mkdir()
        write(tmp_path / version / "a.yaml", private(ip))
        (tmp_path / "..data_tmp").symlink_to(version)
        (tmp_path / "..data_tmp").replace(tmp_path / "..data")

    publish("..1", "10.0.0.1")
    (tmp_path / "a.yaml").symlink_to("..data/a.yaml")
    async with running(folder):
        assert sink.ready() == ["10.0.0.1:8012"]
        publish("..2", "10.0.0.2")
        await until(lambda: sink.ready() == ["10.0.0.2:8012"])
    assert [] not in [call[2] for call in sink.calls]


async def test_a_folder_that_goes_away_keeps_its_state_and_is_followed_when_it_is_back(
    tmp_path: Path, inventory: Inventory, sink: RecordingSink
) -> None:
    path = tmp_path / "manifests"
    path.mkdir()
    write(path / "a.yaml", private("10.0.0.1"))
    folder = ManifestFolder(path, inventory, FolderTimings(rescan=0.02))
    async with running(folder):
        path.rename(tmp_path / "elsewhere")
        await until(lambda: str(path) in folder.errors)
        assert sink.ready() == ["10.0.0.1:8012"]
        path.mkdir()
        write(path / "a.yaml", private("10.0.0.2"))
        await until(lambda: sink.ready() == ["10.0.0.2:8012"])
        await until(lambda: not folder.errors)


@pytest.mark.untraced
async def test_a_large_file_is_read_too(
    tmp_path: Path, folder: ManifestFolder, sink: RecordingSink
) -> None:
    async with running(folder):
        ips = [f"10.0.{n // 250}.{n % 250}" for n in range(2000)]
        write(tmp_path / "a.yaml", private(*ips))
        await until(lambda: A in sink.endpoints and len(sink.ready()) == 2000)


async def test_an_unreadable_file_is_reported_and_read_when_it_can_be(
    tmp_path: Path, folder: ManifestFolder, sink: RecordingSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> object:
        raise PermissionError(13, "Permission denied")  # the error of mode 0, except for root

    file = tmp_path / "a.yaml"
    write(file, private("10.0.0.1"))
    monkeypatch.setattr(manifest_file, "open", refuse, raising=False)
    async with running(folder):
        assert "cannot be read: Permission denied" in folder.errors[str(file)]
        monkeypatch.undo()
        write(file, private("10.0.0.2"))
        await until(lambda: sink.endpoints)


PROGRAM = """
import asyncio, signal, sys
from activator.discovery.inventory import Inventory
from activator.discovery.manifests import ManifestFolder
from activator.records.source_status import FilesStatus
from tests.activator.discovery.recording import RecordingSink

# A shell without job control starts what it puts into the background with SIGINT ignored, and that
# is inherited.
signal.signal(signal.SIGINT, signal.default_int_handler)

async def main():
    folder = ManifestFolder(sys.argv[1], Inventory(RecordingSink(), RecordingSink()))
    folder.load()
    asyncio.get_running_loop().call_later(0.05, lambda: print("ready", flush=True))
    await folder.run()

asyncio.run(main())
"""


async def test_an_interrupt_ends_the_process_and_its_watching_thread(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PROGRAM,
        str(tmp_path),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(PATIENCE):
            assert process.stdout is not None
            assert await process.stdout.readline() == b"ready\n"
            process.send_signal(signal.SIGINT)
            _, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    assert errors.rstrip().endswith(b"KeyboardInterrupt")


async def test_a_file_that_changed_under_the_same_date_and_size_is_found(
    tmp_path: Path,
    inventory: Inventory,
    sink: RecordingSink,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    # as on a file system without time stamps
    monkeypatch.setattr(manifest_file, "signature_of", lambda status: (status.st_size, 0, 0, 0, 0))
    monkeypatch.setattr(manifest_file, "_RACY_NS", 0)
    write(tmp_path / "a.yaml", private("10.0.0.1"))
    write(tmp_path / "b.yaml", private("10.0.0.9", of="b"))
    timings = FolderTimings(settle=0.001, rescan=0.01)
    unchecked = ManifestFolder(tmp_path, inventory, timings)
    unchecked.load()
    write(tmp_path / "a.yaml", private("10.0.0.2"))
    await unchecked.scan()
    assert sink.ready() == ["10.0.0.1:8012"]
    folder = ManifestFolder(tmp_path, inventory, timings, self_check_interval=0.02)
    async with asyncio.timeout(PATIENCE), running(folder):
        write(tmp_path / "a.yaml", private("10.0.0.3"))
        await sink.until(lambda: sink.ready() == ["10.0.0.3:8012"])
    missed = folder.status(0.0).missed
    assert missed.found == {"file": 1}
    assert missed.checks["drifted"] == 1
    assert f"{tmp_path / 'a.yaml'} has changed without a new time or size" in caplog.text


def test_a_folder_tells_how_long_ago_it_was_looked_at_and_changed(
    tmp_path: Path, inventory: Inventory, sink: RecordingSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(manifests, "time", SimpleNamespace(monotonic=lambda: now))
    write(tmp_path / "a.yaml", private("10.0.0.1"))
    folder = ManifestFolder(tmp_path, inventory)
    folder.load()
    now = 130.0
    asyncio.run(folder.scan())
    now = 131.0
    assert folder.status(now).files == FilesStatus(str(tmp_path), 1.0, 31.0)
    (tmp_path / "a.yaml").unlink()
    tmp_path.rmdir()
    now = 150.0
    asyncio.run(folder.scan())  # this one fails: the last state stays, and ages
    assert folder.status(now).files == FilesStatus(str(tmp_path), 20.0, 50.0)


@pytest.mark.parametrize(
    ("cost", "seconds"),
    [
        pytest.param(0.0, 5.0, id="a small folder: the usual interval"),
        pytest.param(0.005, 20.0, id="a larger one: its share of the CPU decides"),
        pytest.param(10.0, 60.0, id="the largest: the upper bound"),
    ],
)
def test_a_folder_is_scanned_less_often_the_more_a_scan_costs(cost: float, seconds: float) -> None:
    assert FolderTimings(rescan=5.0).next_scan(cost) == seconds
