from __future__ import annotations

from pathlib import Path

from pydantic import SecretStr

from ragflow_lg.server.assembly.app_state import open_app_state
from ragflow_lg.server.database.key_repository import KeyRepository
from ragflow_lg.server.settings import ServerSection, Settings


async def test_all_is_opened_as_the_settings_say(tmp_path: Path) -> None:
    section = ServerSection(database=SecretStr(f"sqlite:///{tmp_path}/server.db"))
    async with open_app_state(Settings(checkpoints="memory://", server=section), model="demo") as parts:
        assert await KeyRepository(parts.database).count() == 0
        assert len(parts.new_id()) == 32
        assert parts.now_ms() > 1_700_000_000_000
