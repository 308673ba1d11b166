from pathlib import Path

import pytest
from pydantic import SecretStr

from ragflow_lg.server.assembly.app_state import open_app_state, queue_url
from ragflow_lg.server.database.key_repository import KeyRepository
from ragflow_lg.server.settings import Settings
from ragflow_lg.server.settings.server_section import ServerSection


async def test_the_app_state_is_opened_from_the_settings(tmp_path: Path) -> None:
    section = ServerSection(database=SecretStr(f"sqlite:///{tmp_path}/server.db"))
    async with open_app_state(Settings(checkpoints="memory://", server=section), model="demo") as app_state:
        assert await KeyRepository(app_state.database).count() == 0
        assert len(app_state.new_id()) == 32
        assert app_state.now_ms() > 1_700_000_000_000


@pytest.mark.parametrize(
    ("checkpoints", "journal", "queue"),
    [
        ("redis://a", "", "redis://a"),
        ("redis://a", "redis://b", "redis://a"),
        ("redis://a", "memory://", ""),
        ("sqlite:///a.db", "redis://b", ""),
    ],
)
def test_sessions_and_events_in_redis_have_a_queue(checkpoints: str, journal: str, queue: str) -> None:
    section = ServerSection(journal=SecretStr(journal))
    assert queue_url(Settings(checkpoints=checkpoints, server=section)) == queue
