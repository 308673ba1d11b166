from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.adapters.recording.player import Player
from ragflow_lg.adapters.recording.recorder import Recorder
from ragflow_lg.base.errors import CassetteError
from ragflow_lg.server.assembly.recordings import open_recording
from ragflow_lg.services.chat import ChatRequest
from tests.fakes.services import OneModel, Reply, ScriptedModel, fake_services


def test_without_a_file_nothing_is_opened() -> None:
    with open_recording() as recording:
        assert recording is None


@pytest.mark.parametrize(
    "source",
    [
        {"env.api_key": "canvas-key-0001"},
        '\ufeff{"env.api_key": "canvas-key-0001"}',
        b'{"env.api_key": "canvas-key-0001"}',
        '{"env.api_key": "canvas-key-0001", broken',
    ],
)
async def test_secrets_of_settings_and_documents_are_redacted_from_the_first_request_on(
    tmp_path: Path, source: str | bytes | dict[str, Any]
) -> None:
    file = tmp_path / "r.jsonl"
    with open_recording(file, secrets=["settings-key-0002"], sources=[source]) as recording:
        assert isinstance(recording, Recorder)
        services = recording.wrap(fake_services(models=OneModel(ScriptedModel([Reply("canvas-key-0001")]))))
        await services.models.model("m").complete(ChatRequest("settings-key-0002", ()))
    text = file.read_text()
    assert "canvas-key" not in text
    assert "settings-key" not in text
    with open_recording(replay=file) as recording:
        assert isinstance(recording, Player)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CassetteError, match="cannot be read"), open_recording(replay=tmp_path / "none"):
        pass
