"""A test whose program is missing is skipped on a developer's machine, and fails in CI."""

from __future__ import annotations

import pytest

from tests.programs import CI, need, package


def test_a_program_is_found():
    assert need("sh", "dash").endswith("/sh")


def test_a_test_without_its_program_is_skipped(monkeypatch):
    monkeypatch.delenv(CI, raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"no-such is missing; .* install some-package"):
        need("no-such", "some-package")


def test_a_test_without_its_program_fails_in_ci(monkeypatch):
    monkeypatch.setenv(CI, "true")
    with pytest.raises(pytest.fail.Exception, match=r"no-such is missing; .* install some-package"):
        need("no-such", "some-package")


def test_a_package_that_is_missing_skips_its_test(monkeypatch):
    assert package("json").loads("1") == 1
    monkeypatch.delenv(CI, raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"the package no_such is missing"):
        package("no_such")
