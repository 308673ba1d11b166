"""Audio of the mock server: a tone for each text, and a fixed text for each audio file."""

from __future__ import annotations

import io
import json
import math
import struct
import wave
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.integrations.mock_model.mock_llm_wire import Answer, build_error

if TYPE_CHECKING:
    from starlette.datastructures import FormData

    from ragflow_lg.integrations.mock_model.rules import AudioReply

RATE = 8_000
MAX_SECONDS = 2.0
_VOLUME = 8_000
_HERTZ = 440.0


def tone(text: str, speed: float = 1.0) -> bytes:
    """Return a WAV file that is longer for a longer text, at most two seconds."""
    seconds = min(MAX_SECONDS, 0.05 + 0.005 * len(text) / max(0.25, speed))
    samples = [round(_VOLUME * math.sin(2 * math.pi * _HERTZ * n / RATE)) for n in range(round(seconds * RATE))]
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(RATE)
        writer.writeframes(struct.pack(f"<{len(samples)}h", *samples))
    return file.getvalue()


def build_speech(reply: AudioReply, body: Any) -> Answer:
    """Return the answer to a request for speech: a WAV file, whatever its ``response_format``.

    Raises:
        ServiceError: If the request has no ``input``.
    """
    fields: dict[str, Any] = cast("dict[str, Any]", body) if isinstance(body, dict) else {}
    text, speed = fields.get("input"), fields.get("speed", 1.0)
    if not isinstance(text, str) or not text or not isinstance(speed, int | float):
        raise ServiceError("The request needs `input`, the text to speak; `speed` is a number.")
    if reply.status >= 300:
        return _delayed(build_error(reply.status, reply.error or "scripted error"), reply)
    audio = tone(text, speed)
    if reply.is_cut:
        half = audio[: len(audio) // 2]
        return _delayed(Answer(200, "audio/wav", (half,), length=len(audio), is_cut=True), reply)
    return _delayed(Answer(200, "audio/wav", (audio,), length=len(audio)), reply)


def build_transcript(reply: AudioReply, form: FormData) -> Answer:
    """Return the answer to a request for a transcript. ``${name}`` in its text is the file's name.

    Raises:
        ServiceError: If the request has no file.
    """
    name = getattr(form.get("file"), "filename", None)
    if not name:
        raise ServiceError("The request needs `file`, the audio file.")
    if reply.status >= 300:
        return _delayed(build_error(reply.status, reply.error or "scripted error"), reply)
    body = json.dumps({"text": reply.text.replace("${name}", name)}).encode()
    return _delayed(Answer(200, "application/json", (body,), length=len(body)), reply)


def _delayed(answer: Answer, reply: AudioReply) -> Answer:
    return replace(answer, delay_s=reply.delay_s)
