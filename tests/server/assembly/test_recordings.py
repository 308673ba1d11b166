from __future__ import annotations

from pathlib import Path

import pytest

from ragflow_lg.adapters.recording.player import Player
from ragflow_lg.adapters.recording.recorder import Recorder
from ragflow_lg.base.errors import CassetteError
from ragflow_lg.server.assembly.recordings import open_recording
from ragflow_lg.services.chat import ChatRequest
from tests.fakes.services import OneModel, Reply, ScriptedModel, fake_services


def test_nothing_is_opened_where_nothing_is_asked_for(tmp_path: Path) -> None:
    with open_recording() as tape:
        assert tape is None


@pytest.mark.parametrize(
    "source",
    [
        {"env.api_key": "canvas-key-0001"},
        '\ufeff{"env.api_key": "canvas-key-0001"}',
        b'{"env.api_key": "canvas-key-0001"}',
        '{"env.api_key": "canvas-key-0001", broken',
    ],
)
async def test_secrets_of_settings_and_documents_are_known_before_the_first_request(
    tmp_path: Path, source: object
) -> None:
    file = tmp_path / "r.jsonl"
    with open_recording(file, secrets=["settings-key-0002"], sources=[source]) as tape:  # type: ignore[list-item]
        assert isinstance(tape, Recorder)
        services = tape.wrap(fake_services(models=OneModel(ScriptedModel([Reply("canvas-key-0001")]))))
        await services.models.model("m").complete(ChatRequest("settings-key-0002", ()))
    written = file.read_text()
    assert "canvas-key" not in written
    assert "settings-key" not in written
    with open_recording(replay=file) as tape:
        assert isinstance(tape, Player)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CassetteError, match="cannot be read"), open_recording(replay=tmp_path / "none"):
        pass
