"""Fixtures for the tests of sandboxes."""

from typing import Any

import pytest

from tests.ragflow_lg.adapters.code.sandboxes import USERS, Run, bubblewrap


@pytest.fixture(params=[f"bubblewrap-{user}" for user in USERS])
def run(request: Any) -> Run:
    """Run programs in each local sandbox."""
    return bubblewrap(request.param.rpartition("-")[2])
