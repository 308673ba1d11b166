"""Spoken answers and transcribed audio in a running server, with the mock server as the model."""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ragflow_lg.integrations.mock_model.audio import tone
from ragflow_lg.integrations.mock_model.rules import AudioReply, AudioRules
from ragflow_lg.integrations.speech.endpoint_speech import EndpointSpeech, open_speech
from ragflow_lg.integrations.speech.speech_settings import speech_models
from ragflow_lg.runs import speaker
from ragflow_lg.server.settings import Settings
from ragflow_lg.services.speech import Speech
from tests.fakes.mock_llm import MockLLM, reply
from tests.fakes.services import Reply
from tests.server.http.app_server import AppServer, canvas, says, start_app
from tests.server.http.native.native_client import native
from tests.server.replicas import replicas, start_replica
from tests.server.runs.test_failover import read
from tests.server.waiting import wait_while

pytestmark = pytest.mark.slow

SPEAKS = canvas(
    ("begin", "Begin", {}, ["LLM:0"]),
    ("LLM:0", "LLM", {"llm_id": "m", "prompts": [{"role": "user", "content": "{sys.query}"}]}, ["Message:0"]),
    ("Message:0", "Message", {"content": ["{LLM:0@content}"], "auto_play": True}, []),
)
LISTENS = says("{sys.files}")
ANSWER = ["Hel", "lo **you**. ", "It is [ID:0] fine! ", "Bye"]
SENTENCES = ["Hello you.", "It is fine!", "Bye"]
KEY = "sk-secret-of-the-voice"


@asynccontextmanager
async def speaking(
    folder: Path, audio: AudioRules | None = None, answer: list[str] | None = None, **section: Any
) -> AsyncGenerator[tuple[AppServer, MockLLM]]:
    """Start a server whose voice and transcriptions come from a mock server."""
    async with MockLLM(audio=audio or AudioRules()) as mock:
        endpoint = {"base_url": mock.base_url, "api_key": KEY}
        speech: Any = {"tts-1@OpenAI": {**endpoint, "voice": "nova", "price": 15.0}}
        sections: Any = {"speech": speech, "transcription": endpoint}
        settings = Settings(**sections)
        replies = [Reply(chunks=answer or ANSWER, repeat=True)]
        models, transcription = speech_models(settings)
        assert transcription is not None
        models = {name: replace(model, speed=1.5, **section) for name, model in models.items()}
        async with start_app(folder, replies) as server, open_speech(settings, server.app_state.services) as opened:
            voices = EndpointSpeech(models, replace(transcription, max_audio_bytes=1_000), opened._http)  # pyright: ignore[reportPrivateUsage]
            services = replace(server.app_state.services, integrations={Speech: voices})
            server.app_state = replace(server.app_state, services=services)
            server.app.state.app_state = server.app_state
            server.turns._app_state = server.app_state
            yield server, mock


def audio_of(frames: list[Any]) -> list[str]:
    return [frame["data"]["audio_binary"] for frame in frames if "audio_binary" in frame["data"]]


def text_of(frames: list[Any]) -> str:
    return "".join(frame["data"]["content"] for frame in frames if frame["event"] == "message")


def spoken(mock: MockLLM) -> list[str]:
    sent = (exchange.body for exchange in mock.requests if exchange.path == "/v1/audio/speech")
    return [body["input"] for body in sent if body]  # there is none if a server was killed while it sent one


async def test_sentences_are_spoken_in_order(tmp_path: Path) -> None:
    async with speaking(tmp_path) as (server, mock):
        frames = await server.stream(await server.agent(SPEAKS))
        assert audio_of(frames) == [tone(sentence, 1.5).hex() for sentence in SENTENCES]
        assert text_of(frames) == "".join(ANSWER)
        assert frames[-1]["event"] == "workflow_finished"
        assert all(frame["data"]["content"] == "" for frame in frames if "audio_binary" in frame["data"])
        assert frames[-1]["data"]["usage"]["calls"] == 1 + len(SENTENCES)
        assert sorted(spoken(mock)) == sorted(SENTENCES)
        body = mock.requests[0].body
        expected = {"model": "tts-1", "voice": "nova", "response_format": "mp3", "speed": 1.5}
        assert body == {**expected, "input": body["input"]}
        assert mock.requests[0].headers["authorization"] == f"Bearer {KEY}"
        assert KEY not in json.dumps(frames)


async def test_a_slow_voice_never_delays_text(tmp_path: Path) -> None:
    slow = AudioRules(speech=[AudioReply(delay_s=1.0)])
    async with speaking(tmp_path, slow) as (server, _):
        frames = await server.stream(await server.agent(SPEAKS))
        events = [frame["event"] for frame in frames]
        first = next(index for index, frame in enumerate(frames) if "audio_binary" in frame["data"])
        assert first > events.index("message_end")
        assert (len(audio_of(frames)), events[-1]) == (3, "workflow_finished")


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (AudioReply(status=500, error=f"no voice for {KEY}"), "answered with status 500"),
        (AudioReply(is_cut=True), "did not send a valid, complete HTTP response"),
        (AudioReply(delay_s=20.0), "did not answer within 3 s"),
    ],
)
async def test_a_mute_voice_costs_no_text(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, reply: AudioReply, reason: str
) -> None:
    with caplog.at_level(logging.WARNING, logger=speaker.__name__):
        async with speaking(tmp_path, AudioRules(speech=[reply]), timeout_s=3.0) as (server, _):
            frames = await server.stream(await server.agent(SPEAKS))
    assert (text_of(frames), audio_of(frames), frames[-1]["event"]) == ("".join(ANSWER), [], "workflow_finished")
    (warning,) = [record for record in caplog.records if record.name == speaker.__name__]
    assert reason in warning.getMessage()
    assert KEY not in warning.getMessage()


async def test_a_voice_that_fails_repeatedly_is_not_asked_again(tmp_path: Path) -> None:
    answer = [f"Sentence {number}. " for number in range(20)]
    async with speaking(tmp_path, AudioRules(speech=[AudioReply(status=500)]), answer) as (server, mock):
        assert audio_of(await server.stream(await server.agent(SPEAKS))) == []
        assert len(spoken(mock)) <= speaker.MAX_FAILURES + speaker.CONCURRENCY
    replies = AudioRules(speech=[AudioReply(status=500), AudioReply()])
    async with speaking(tmp_path, replies) as (server, _):
        assert len(audio_of(await server.stream(await server.agent(SPEAKS, "Again")))) == 2, (
            "a failed sentence is left out"
        )


async def test_a_voice_that_is_too_slow_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speaker, "WAIT_S", 0.2)
    async with speaking(tmp_path, AudioRules(speech=[AudioReply(delay_s=10)])) as (server, _):
        async with asyncio.timeout(60):
            frames = await server.stream(await server.agent(SPEAKS))
        assert (text_of(frames), audio_of(frames)) == ("".join(ANSWER), [])


async def test_thinking_is_not_spoken(tmp_path: Path) -> None:
    answer = ["<think>", "I think.", " More. ", "</think>", "Hello."]
    async with speaking(tmp_path, answer=answer) as (server, mock):
        await server.stream(await server.agent(SPEAKS))
        assert spoken(mock) == ["Hello."]


async def test_a_continued_run_does_not_speak_again_what_was_shown(tmp_path: Path, redis_url: str) -> None:
    sentences = [f"Sentence {number}. " for number in range(60)]
    first_half, second_half = sentences[:30], sentences[30:]
    waiting = reply("".join(first_half), "".join(second_half), piece_delay_s=60.0)
    async with MockLLM([waiting, reply(*sentences)]) as llm:
        voice = f'[speech.v]\nbase_url = "{llm.base_url}"\n'
        async with replicas(tmp_path, redis_url, llm.base_url, 1, more=voice) as servers:
            first = servers[0]
            dsl = json.loads(json.dumps(SPEAKS).replace('"m"', '"m@Test"'))
            created = await first.client.post("/agents", json={"title": "Voice", "dsl": dsl})
            body = {"agent_id": created.json()["data"]["id"], "query": "hi", "stream": True}
            start = await read(first, body, "", "Sentence 29. ")
            servers.append(second := await start_replica(tmp_path / "settings.toml", first.key))
            async with asyncio.timeout(40):
                await wait_while(lambda: len(spoken(llm)) < len(first_half))
                first.process.kill()
                rest = await read(second, body, start[-1][0], "")
        assert text_of([frame for _, frame in start + rest if frame["event"] != "DONE"]) == "".join(sentences)
        assert Counter(spoken(llm)) == Counter(sentence.strip() for sentence in sentences)


async def test_audio_files_are_transcribed(tmp_path: Path) -> None:
    async with speaking(tmp_path) as (server, mock):
        agent_id = await server.agent(LISTENS)
        files = {"file": ("question.wav", tone("a")[:900], "audio/wav")}
        upload = (await server.post(f"/agents/{agent_id}/upload", files=files))["data"]
        assert text_of(await server.stream(agent_id, files=[upload])) == '["You said: question.wav"]'
        assert mock.requests[0].body == {"model": "whisper-1", "response_format": "json"}


@pytest.mark.parametrize(
    ("reply", "size", "problem"),
    [
        (AudioReply(status=503, error="busy"), 10, "answered with status 503"),
        (AudioReply(), 2_000, "'question.wav' has 2,000 bytes; at most 1,000 are sent"),
    ],
)
async def test_unreadable_audio_stops_the_turn(tmp_path: Path, reply: AudioReply, size: int, problem: str) -> None:
    async with speaking(tmp_path, AudioRules(transcriptions=[reply])) as (server, _):
        agent_id = await server.agent(LISTENS)
        files = {"file": ("question.wav", b"x" * size, "audio/wav")}
        upload = (await server.post(f"/agents/{agent_id}/upload", files=files))["data"]
        assert problem in json.dumps(await server.ask(agent_id, files=[upload]))


async def test_other_clients_receive_the_text(tmp_path: Path) -> None:
    async with speaking(tmp_path) as (server, mock):
        agent_id, silent = await server.agent(SPEAKS), json.loads(json.dumps(SPEAKS).replace("true", "false"))
        assert audio_of(await server.stream(await server.agent(silent))) == mock.requests == []
        body = {"messages": [{"role": "user", "content": "hi"}], "stream": True, "model": "m"}
        text = (await server.client.post(f"/agents_openai/{agent_id}/chat/completions", json=body)).text
        lines = [line for line in text.split("\n") if line.startswith("data:") and "[DONE]" not in line]
        chunks = [json.loads(line[5:])["choices"][0]["delta"].get("content") or "" for line in lines]
        assert ("".join(chunks), "audio_binary" in text) == ("".join(ANSWER), False)
        assert (await server.ask(agent_id))["data"]["data"]["content"] == "".join(ANSWER)
        text = (await native(server, agent_id).post("/runs/stream", json={"query": "hi"})).text
        assert text.count("audio_binary") == len(SENTENCES)
