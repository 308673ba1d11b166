from collections.abc import AsyncIterator

import pytest

from tests.ragflow_lg.adapters.http.clients import OPENED


@pytest.fixture(autouse=True)
async def _close_clients() -> AsyncIterator[None]:
    yield
    while OPENED:
        await OPENED.pop().aclose()
