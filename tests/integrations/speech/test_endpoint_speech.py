"""Speech endpoints: requests, refusals, and errors without keys."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from ragflow_lg.adapters.http.http_client import GuardedHttpClient
from ragflow_lg.adapters.http.http_settings import HttpSettings
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.integrations.mock_model.audio import tone
from ragflow_lg.integrations.mock_model.rules import AudioReply, AudioRules
from ragflow_lg.integrations.speech.endpoint_speech import EndpointSpeech
from ragflow_lg.integrations.speech.speech_settings import (
    AudioFormat,
    SpeechSettings,
    TranscriptionSettings,
    find_voice,
)
from ragflow_lg.services.http import HttpRequest, HttpResponse
from tests.fakes.mock_llm import MockLLM
from tests.harness.rows import each_row


class OneResponse:
    """An HTTP client with one response."""

    def __init__(self, response: HttpResponse) -> None:
        self.response = response
        self.requests: list[HttpRequest] = []

    async def send(self, request: HttpRequest) -> HttpResponse:
        self.requests.append(request)
        return self.response


def speech_of(http: Any, **settings: Any) -> EndpointSpeech:
    endpoint: Any = {"base_url": "http://v/v1", "model": "m", **settings}
    return EndpointSpeech({"m@P": SpeechSettings(**endpoint)}, TranscriptionSettings(**endpoint), http)


async def test_a_text_is_spoken_and_a_file_transcribed() -> None:
    async with MockLLM() as mock:
        http = GuardedHttpClient(HttpSettings(allow=("127.0.0.1",)))
        speech = speech_of(http, base_url=mock.base_url)
        spoken = await speech.speak("Hello", "m@P")
        heard = await speech.transcribe('a"\r\nb.wav', "audio/wav", spoken.audio)
        await http.aclose()
    assert spoken.audio == tone("Hello")
    assert (spoken.usage.calls, spoken.usage.prompt_tokens > 0) == (1, True)
    assert heard == "You said: a_b.wav"


@each_row("tts_id", ["", "m@P", "m@P#tenant"])
def test_a_model_is_found_by_its_id(tts_id: str) -> None:
    voices = {"m@P": SpeechSettings("http://v", "m"), "n": SpeechSettings("http://v", "n")}
    assert find_voice(tts_id, voices).model == "m"


def test_an_unknown_model_is_named_with_its_section() -> None:
    with pytest.raises(SettingsError, match=r"""no speech model 'x@Q'.*\[speech."x@Q"\].*Known models: 'm'"""):
        find_voice("x@Q", {"m": SpeechSettings("http://v", "m")})
    with pytest.raises(SettingsError, match=r"no model that speaks"):
        find_voice("", {})


async def test_without_its_key_a_model_is_not_asked() -> None:
    http = OneResponse(HttpResponse(200, {}, "", ""))
    with pytest.raises(SettingsError, match="cannot be used: the file 'k' is empty"):
        await speech_of(http, key_problem="the file 'k' is empty").speak("Hello", "")
    assert http.requests == []


@each_row(
    ("response", "problem"),
    [
        (HttpResponse(200, {"content-type": "audio/mpeg"}, "", ""), "sent no audio"),
        (HttpResponse(200, {"content-type": "application/json"}, "", "", b'{"a": 1}'), "sent no audio"),
        (HttpResponse(200, {"content-type": "text/html; charset=utf-8"}, "", "", b"<p>"), "its answer is 'text/html'"),
        (HttpResponse(200, {"content-type": "image/png"}, "", "", b"x"), "its answer is 'image/png'"),
        (HttpResponse(200, {"content-type": "application/problem+json"}, "", "", b"{}"), "sent no audio"),
        (HttpResponse(401, {}, "", "", b"bad key sk-1234"), "answered with status 401: bad key \\*\\*\\*"),
    ],
)
async def test_an_answer_without_audio_is_an_error(response: HttpResponse, problem: str) -> None:
    with pytest.raises(ServiceError, match=problem):
        await speech_of(OneResponse(response), api_key="sk-1234").speak("Hello", "")


@each_row(
    ("format_", "sent", "media_type"),
    [
        ("aac", "", "audio/aac"),
        ("pcm", "application/octet-stream", "audio/pcm"),
        ("opus", "", "audio/ogg"),
        ("mp3", "", "audio/mpeg"),
        ("pcm", "audio/L16; rate=24000", "audio/l16"),
    ],
)
async def test_the_type_of_audio_is_what_the_endpoint_or_the_settings_say(
    format_: AudioFormat, sent: str, media_type: str
) -> None:
    http = OneResponse(HttpResponse(200, {"content-type": sent}, "", "", b"sound"))
    speech = EndpointSpeech({"m": SpeechSettings("http://v", "m", format=format_)}, None, http)
    assert (await speech.speak("Hello", "")).media_type == media_type


@each_row("text", ["", "[]", "{}", '{"text": 1}', "[" * 100_000])
async def test_an_answer_without_text_is_an_error(text: str) -> None:
    with pytest.raises(ServiceError, match="sent no text"):
        await speech_of(OneResponse(HttpResponse(200, {}, text, ""))).transcribe("a.wav", "audio/wav", b"x")


async def test_a_large_file_is_not_sent() -> None:
    http = OneResponse(HttpResponse(200, {}, '{"text": "x"}', ""))
    speech = EndpointSpeech({}, TranscriptionSettings("http://v", "m", max_audio_bytes=3), http)
    with pytest.raises(ServiceError, match=r"'a.wav' has 4 bytes; at most 3 are sent"):
        await speech.transcribe("a.wav", "audio/wav", b"1234")
    assert http.requests == []


async def test_audio_that_is_too_large_is_an_error() -> None:
    async with MockLLM(audio=AudioRules(speech=[AudioReply()])) as mock:
        http = GuardedHttpClient(HttpSettings(allow=("127.0.0.1",)))
        speech = speech_of(http, base_url=mock.base_url)
        small = EndpointSpeech({"m": SpeechSettings(mock.base_url, "m", max_audio_bytes=100)}, None, http)
        with pytest.raises(ServiceError, match="larger than the limit of 100 bytes"):
            await small.speak("Hello", "")
        assert speech.can_transcribe
        assert not small.can_transcribe
        await http.aclose()


@pytest.mark.parametrize(
    ("pause_s", "timeout_s", "problem"),
    [(0.0, 20.0, "larger than the limit of"), (0.05, 0.5, "did not answer within 0.5 s")],
)
async def test_audio_without_end_is_cut_off(pause_s: float, timeout_s: float, problem: str) -> None:
    async def send_for_ever(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: audio/mpeg\r\ntransfer-encoding: chunked\r\n\r\n")
            while not writer.is_closing():
                writer.write(b"4000\r\n" + bytes(0x4000) + b"\r\n")
                await writer.drain()
                await asyncio.sleep(pause_s)
        writer.close()

    server = await asyncio.start_server(send_for_ever, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        speech = speech_of(
            GuardedHttpClient(HttpSettings(allow=("127.0.0.1",))),
            base_url=f"http://127.0.0.1:{port}",
            timeout_s=timeout_s,
        )
        async with asyncio.timeout(30):
            with pytest.raises(ServiceError, match=problem):
                await speech.speak("Hello", "")
