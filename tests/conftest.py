"""What all tests share: the recorded material, if it is there."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).parents[2] / "shared"
"""Recorded behaviour and real canvases, beside the checkout; they are not part of it."""

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.fixture
def shared_corpus() -> Path:
    folder = SHARED / "corpus"
    if not folder.is_dir():
        pytest.skip("the folder ../shared/corpus is not there")
    return folder
