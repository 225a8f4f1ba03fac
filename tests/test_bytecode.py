"""Which test files pytest would compile."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.bytecode import stale


@pytest.mark.skipif(sys.dont_write_bytecode, reason="pytest writes no compiled files")
def test_a_file_is_stale_until_pytest_has_compiled_it_and_after_a_change(tmp_path: Path) -> None:
    own = Path(__file__)
    assert own not in stale(own.parent)  # pytest has just loaded it
    copy = Path(shutil.copy(own, tmp_path))
    assert list(stale(tmp_path)) == [copy]
    shutil.copytree(own.parent / "__pycache__", tmp_path / "__pycache__")
    assert list(stale(tmp_path)) == []
    copy.write_text("changed")
    assert list(stale(tmp_path)) == [copy]
