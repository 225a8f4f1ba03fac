"""The versions of one kind of objects: where the next watch starts, and how old a list may be.

Pure. The API server sets them, as ``metadata.resourceVersion``. Counterpart: the last
synced version in client-go's tools/cache/reflector.go.
"""

from __future__ import annotations

from activator.discovery.dialect_inventory import not_newer
from activator.discovery.wire import ConnectionLostError


class Versions:
    """The versions that a reflector has seen.

    Attributes:
        of_watch: the version from which the next watch starts; empty if a list must come first.
        of_list: the oldest accepted version of the next list. "0" accepts the server's cache, and
            an empty one lists from etcd.
    """

    def __init__(self) -> None:
        self.of_watch = ""
        self.of_list = "0"

    def reached(self, version: str) -> None:
        """Record that the state in force has this version."""
        self.of_watch = self.of_list = version

    def discard(self) -> None:
        """Start again with a list from etcd."""
        self.of_watch = self.of_list = ""

    def list_next(self) -> None:
        """Start again with a list that is at least as new as the state in force."""
        self.of_watch = ""

    def expired(self) -> None:
        """Record that the server has removed a version: that of the watch, or that of the list.

        The version of a list includes the token for its next page.
        """
        if not self.of_watch:
            self.of_list = ""
        self.of_watch = ""

    def check_age(self, version: str) -> None:
        """Compare the version of a list with the oldest accepted one.

        A stale cache must not undo changes. The caller lists again from etcd, and accepts that list
        even if it is older: then etcd was restored from a backup.

        Raises:
            ConnectionLostError: the list is older.
        """
        oldest = self.of_list
        if version != oldest and not_newer(version, oldest):
            self.of_list = ""
            raise ConnectionLostError(f"the list has version {version}, expected {oldest} or newer")
