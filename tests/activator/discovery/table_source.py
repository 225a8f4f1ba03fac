"""A third source: a table of addresses in one TOML file, without any Kubernetes object.

Shows what a source needs: this file, and one call that makes it (a row of ``sources.SOURCES``).
``[revisions."NAMESPACE/NAME"]`` has ``pods`` (``ip:port``), ``concurrency`` (0: no limit) and
``probe`` (``tcp``, the default, or ``http:/path``).
"""

from __future__ import annotations

import asyncio
import logging
import time
import tomllib
from pathlib import Path

from activator.discovery.manifests import FolderListener
from activator.discovery.source import Sink, Source, SourceError
from activator.objects.fields import Field, ManifestError
from activator.records.source_status import FilesStatus, KindStatus, SourceStatus
from throttler.model import (
    AppProtocol,
    Endpoint,
    ListedEndpoints,
    ProbeKind,
    ProbeSpec,
    Revision,
    RevisionID,
)

logger = logging.getLogger(__name__)

RESCAN = 5.0
_MOST = 2**31 - 1

Row = tuple[Revision, ListedEndpoints]


class TableSource(Source):
    """Read a table, and follow its changes.

    Arguments:
        path: the TOML file.
        sink: takes revisions and their pods.
    """

    def __init__(self, path: str | Path, sink: Sink) -> None:
        self._path = Path(path)
        self._sink = sink
        self._rows: dict[str, Row] = {}
        self._errors: dict[str, str] = {}
        self._rejected = 0
        self._read_at = self._changed_at = time.monotonic()

    async def start(self) -> None:
        if not self._path.is_file():
            raise SourceError(f"the table {self._path} does not exist: create it")
        self._read()

    async def run(self) -> None:
        changed = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(FolderListener(self._path.parent, RESCAN, changed.set).run())
            while True:
                await changed.wait()
                changed.clear()
                self._read()

    def status(self, now: float) -> SourceStatus:
        path = str(self._path)
        return SourceStatus(
            kind="table",
            name=path,
            kinds={"Revision": KindStatus(len(self._rows), self._rejected)},
            files=FilesStatus(path, now - self._read_at, now - self._changed_at),
            errors=dict(self._errors),
        )

    def _read(self) -> None:
        """Read the file. A broken file or row is reported, and keeps its last good state."""
        self._read_at = time.monotonic()
        try:
            table = tomllib.loads(self._path.read_text())
            names = Field(table, "the table")["revisions"].mapping()
        except (OSError, ValueError) as error:
            self._report([str(error)])
            return
        rows, problems = dict[str, Row](), list[str]()
        for name, value in names.items():
            try:
                rows[str(name)] = _row(Field(value, f"revision {name}"), str(name))
            except ManifestError as error:
                problems.append(str(error))
                if known := self._rows.get(str(name)):
                    rows[str(name)] = known
        self._rejected = len(problems)
        self._report(problems)
        self._put(rows)

    def _report(self, problems: list[str]) -> None:
        errors = {str(self._path): "; ".join(problems)} if problems else {}
        if errors != self._errors:
            self._errors = errors
            for problem in problems:
                logger.error("%s: %s; the last good state stays", self._path, problem)

    def _put(self, rows: dict[str, Row]) -> None:
        before, self._rows = self._rows, rows
        for name, (revision, endpoints) in rows.items():
            if before.get(name) != (revision, endpoints):
                self._sink.set_revision(revision)
                self._sink.set_endpoints(revision.id, {AppProtocol.HTTP1: endpoints})
        for name in before.keys() - rows.keys():
            gone = before[name][0].id
            self._sink.set_endpoints(gone, {AppProtocol.HTTP1: ListedEndpoints()})
            self._sink.delete_revision(gone)
        if before != rows:
            self._changed_at = time.monotonic()


def _row(row: Field, name: str) -> Row:
    namespace, slash, short = name.partition("/")
    if not slash:
        row.fail("expected a name NAMESPACE/NAME")
    revision = Revision(
        RevisionID(namespace, short),
        container_concurrency=row["concurrency"].whole(minimum=0, maximum=_MOST, default=0),
        probe=_probe(row["probe"]),
    )
    return revision, ListedEndpoints(ready=frozenset(_endpoint(pod) for pod in row["pods"].items()))


def _endpoint(pod: Field) -> Endpoint:
    ip, colon, port = pod.text().rpartition(":")
    if not (ip and colon and port.isdigit()):
        pod.expected("ip:port")
    return Endpoint(pod.text())


def _probe(probe: Field) -> ProbeSpec:
    kind, _, path = probe.text("tcp").partition(":")
    if kind == "tcp":
        return ProbeSpec()
    if kind == "http" and path.startswith("/"):
        return ProbeSpec(kind=ProbeKind.HTTP, path=path.encode("ascii"))
    probe.expected("tcp or http:/path")
