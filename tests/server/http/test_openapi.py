"""Nonsense of every kind, by schemathesis, makes the server fail nowhere. ``make fuzz-api`` asks for longer."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from tests.harness.api_fuzz import fuzz


def _is_installed() -> bool:
    try:
        return tuple(map(int, version("schemathesis").split(".")[:2])) >= (4, 32)
    except PackageNotFoundError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(not _is_installed(), reason="schemathesis 4.32 is not installed")
def test_no_request_makes_the_server_fail(tmp_path: Path) -> None:
    code, told = fuzz(tmp_path, examples=1, limit_s=240)
    assert code == 0, told
    assert "Tested: 0" not in told
