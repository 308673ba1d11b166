"""Nonsense of every kind, by schemathesis, makes the server fail nowhere. ``make fuzz-api`` asks for longer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.api_fuzz import TOOL, fuzz


@pytest.mark.slow
@pytest.mark.skipif(not TOOL.is_dir(), reason="schemathesis is not there; `make clients` fetches it")
def test_no_request_makes_the_server_fail(tmp_path: Path) -> None:
    code, told = fuzz(tmp_path, examples=1, limit_s=240)
    assert code == 0, told
    assert "Tested: 0" not in told
