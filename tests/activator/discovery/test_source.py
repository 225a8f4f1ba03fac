"""An error of any source ends the start in the same way."""

from __future__ import annotations

import pytest

from activator.discovery.api_server import ClusterConfigError
from activator.discovery.kubernetes import ClusterVersionError
from activator.discovery.manifests import ManifestFolderError
from activator.discovery.source import SourceError


@pytest.mark.parametrize("error", [ClusterConfigError, ClusterVersionError, ManifestFolderError])
def test_each_error_of_a_start_is_one_of_a_source(error: type[Exception]) -> None:
    assert issubclass(error, SourceError)
