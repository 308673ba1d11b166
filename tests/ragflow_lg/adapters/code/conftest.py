"""Fixtures for the tests of sandboxes."""

from typing import Any

import pytest

from tests.ragflow_lg.adapters.code.sandboxes import SANDBOXES, Run, open_run


@pytest.fixture(params=SANDBOXES, ids="-".join)
def run(request: Any) -> Run:
    """Run programs in each local sandbox."""
    provider, user = request.param
    return open_run(provider, user)
