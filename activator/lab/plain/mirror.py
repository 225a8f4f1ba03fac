"""Copy objects of an API server into a folder of manifests, for ``activator local``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from activator.lab.control_plane.resources import ApiKind
from activator.lab.control_plane.store import ObjectChange, ObjectStore
from activator.lab.objects import file_of, write_object


class Mirror:
    """Writes each object of some kinds into a folder, and removes the file of a deleted one."""

    def __init__(self, store: ObjectStore, folder: Path, resources: Iterable[ApiKind]) -> None:
        self._store = store
        self._folder = folder
        self._resources = frozenset(resources)
        store.listen(self._on_change)

    def close(self) -> None:
        """Write nothing more; the files stay."""
        self._store.remove(self._on_change)

    def _on_change(self, change: ObjectChange) -> None:
        if change.resource not in self._resources:
            return
        if change.new is not None:
            write_object(self._folder, change.new)
        else:
            file_of(self._folder, change.last).unlink(missing_ok=True)
