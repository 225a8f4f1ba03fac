"""The cluster of the pages, and the list of commands that do not run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.programs import Unavailable
from tests.howto.cluster import ReadersCluster
from tests.howto.reader import not_run
from tests.programs import skip


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReadersCluster]:
    """Provide a cluster, one for all pages of a worker."""
    try:
        found = Cluster(tmp_path_factory.mktemp("cluster"))
    except Unavailable as missing:
        skip(str(missing))
    try:
        found.start()
        yield ReadersCluster(found)
    finally:
        found.stop()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section("commands of pages that do not run")
    try:
        lines = not_run()
    except AssertionError as error:
        lines = [str(error)]
    for line in lines:
        terminalreporter.line(line)
