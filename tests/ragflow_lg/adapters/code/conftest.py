"""Fixtures for the tests of sandboxes."""

from collections.abc import Callable, Generator
from typing import Any

import pytest

from tests.ragflow_lg.adapters.code.sandboxes import SANDBOXES, Run, open_run


@pytest.fixture(params=SANDBOXES, ids="-".join)
def run(request: Any, record_property: Callable[[str, object], None]) -> Generator[Run]:
    """Run programs in each local sandbox, and record what was seen for ``tests.harness.attacks``."""
    provider, user = request.param
    sandbox = open_run(provider, user)
    yield sandbox
    record_property("provider", provider)
    record_property("user", user)
    record_property("seen", sandbox.seen)
