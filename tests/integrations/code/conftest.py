from typing import Any

import pytest

from tests.integrations.code.sandboxes import USERS, Run, open_run


@pytest.fixture(params=USERS)
def run(request: Any) -> Run:
    """Run programs as each user."""
    return open_run(request.param)
