"""Audio of the mock server over HTTP."""

import io
import wave

import httpx

from tests.fakes.mock_llm import MockLLM


async def test_a_text_becomes_a_tone() -> None:
    async with MockLLM() as mock, httpx.AsyncClient(base_url=mock.base_url) as client:
        short = await client.post("/audio/speech", json={"input": "Hi", "model": "m", "voice": "v"})
        long = await client.post("/audio/speech", json={"input": "Hello " * 20, "model": "m", "voice": "v"})
        wrong = await client.post("/audio/speech", json={"model": "m"})
    assert short.headers["content-type"] == "audio/wav"
    lengths: list[float] = []
    for response in (short, long):
        with wave.open(io.BytesIO(response.content)) as audio:
            lengths.append(audio.getnframes() / audio.getframerate())
    assert 0.05 < lengths[0] < lengths[1] <= 2.0
    assert (wrong.status_code, "input" in wrong.json()["error"]["message"]) == (400, True)


async def test_a_file_becomes_a_text() -> None:
    async with MockLLM() as mock, httpx.AsyncClient(base_url=mock.base_url) as client:
        heard = await client.post("/audio/transcriptions", data={"model": "m"}, files={"file": ("a.mp3", b"ID3")})
        wrong = await client.post("/audio/transcriptions", data={"model": "m"})
    assert heard.json() == {"text": "You said: a.mp3"}
    assert wrong.status_code == 400
