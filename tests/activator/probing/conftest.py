"""When a probe comes is asserted to the last digit, so these tests run in virtual time alone;
those that need the loop of production ask for it by ``both_loops``."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import VIRTUAL


@pytest.fixture(params=[VIRTUAL])
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return request.param
