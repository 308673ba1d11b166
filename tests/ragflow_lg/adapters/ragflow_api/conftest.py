from collections.abc import AsyncGenerator

import pytest

from tests.fakes.recorded_ragflow import RecordedRagflow


@pytest.fixture
async def ragflow() -> AsyncGenerator[RecordedRagflow]:
    """Serve the newest generation."""
    async with RecordedRagflow("0.27").running() as server:
        assert isinstance(server, RecordedRagflow)
        yield server
