from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from ragflow_lg.integrations.mock_model.audio import tone
from ragflow_lg.integrations.speech.endpoint_speech import open_speech
from ragflow_lg.server.settings import Settings
from ragflow_lg.services.speech import Speech
from tests.fakes.mock_llm import MockLLM
from tests.fakes.services import fake_services
from tests.server.http.app_server import AppServer, start_app


@asynccontextmanager
async def start(folder: Path, **sections: Any) -> AsyncGenerator[AppServer]:
    async with (
        open_speech(Settings(**sections), fake_services()) as speech,
        start_app(folder, sections=sections) as server,
    ):
        integrations: Any = server.app_state.services.integrations
        integrations[Speech] = speech
        yield server


async def test_texts_are_spoken_and_files_transcribed(tmp_path: Path) -> None:
    async with MockLLM() as mock:
        endpoint: Any = {"base_url": mock.base_url}
        async with start(tmp_path, speech={"tts-1@OpenAI": endpoint}, transcription=endpoint) as server:
            spoken = await server.client.post("/chat/audio/speech", json={"text": "Hello"})
            assert (spoken.content, spoken.headers["content-type"]) == (tone("Hello"), "audio/wav")
            padded = await server.client.post("/chat/audio/speech", json={"text": f" Hello{' ' * 5000}"})
            assert padded.content == tone("Hello")
            files = {"file": ("a.wav", spoken.content, "audio/wav")}
            assert (await server.post("/chat/audio/transcription", files=files))["data"] == {"text": "You said: a.wav"}
            streamed = await server.client.post("/chat/audio/transcription", files=files, data={"stream": "true"})
            assert streamed.text == 'data: {"event":"final","text":"You said: a.wav"}\n\n'
            quotas = (await server.get(f"{server.url}/native/v1/quotas"))["quotas"]
            assert next(quota["used"] for quota in quotas if quota["name"] == "tokens_day") > 0
            for sent, code in (
                (await server.post("/chat/audio/speech", {"text": " "}), 101),
                (await server.post("/chat/audio/speech", {"text": "x" * 5000}), 101),
                (await server.post("/chat/audio/transcription", {"file": "a"}), 102),
            ):
                assert sent["code"] == code, sent


async def test_without_a_model_the_settings_are_named(tmp_path: Path) -> None:
    async with start(tmp_path) as server:
        refused = await server.post("/chat/audio/speech", {"text": "Hello"})
        assert (refused["code"], "[speech.ID]" in refused["message"]) == (102, True), refused
        refused = await server.post("/chat/audio/transcription", files={"file": ("a.wav", b"a", "audio/wav")})
        assert (refused["code"], "[transcription]" in refused["message"]) == (102, True), refused
