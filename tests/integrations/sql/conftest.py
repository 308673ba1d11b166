from collections.abc import Generator
from pathlib import Path

import pytest

from ragflow_lg.services.databases import DatabaseAccount
from tests.fakes.databases import KINDS, SHOP, execute, new_database


@pytest.fixture(params=KINDS)
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[DatabaseAccount]:
    """Yield the account of a database with a table of goods."""
    with new_database(request.param, tmp_path) as account:
        execute(account, SHOP)
        yield account
