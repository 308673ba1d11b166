"""Audio of the mock server: a tone for each text, and a fixed text for each audio file."""

from __future__ import annotations

import io
import json
import math
import wave
from array import array
from typing import TYPE_CHECKING, Any

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.lenient_values import as_map
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
    wavelength = RATE / _HERTZ
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(RATE)
        samples = (round(_VOLUME * math.sin(2 * math.pi * n / wavelength)) for n in range(round(seconds * RATE)))
        writer.writeframes(array("h", samples))
    return file.getvalue()


def build_speech(reply: AudioReply, body: Any) -> Answer:
    """Return the answer to a request for speech: a WAV file, whatever its ``response_format``.

    Raises:
        ServiceError: If the request has no ``input``.
    """
    fields = as_map(body)
    text, speed = fields.get("input"), fields.get("speed", 1.0)
    if not isinstance(text, str) or not text or not isinstance(speed, int | float):
        raise ServiceError("The request needs `input`, the text to speak; `speed` is a number.")
    return _build_answer(reply, "audio/wav", tone(text, speed))


def build_transcript(reply: AudioReply, form: FormData) -> Answer:
    """Return the answer to a request for a transcript. ``${name}`` in its text is the file's name.

    Raises:
        ServiceError: If the request has no file.
    """
    name = getattr(form.get("file"), "filename", None)
    if not name:
        raise ServiceError("The request needs `file`, the audio file.")
    return _build_answer(reply, "application/json", json.dumps({"text": reply.text.replace("${name}", name)}).encode())


def _build_answer(reply: AudioReply, kind: str, body: bytes) -> Answer:
    if reply.status >= 300:
        return build_error(reply.status, reply.error or "scripted error", delay_s=reply.delay_s)
    sent = body[: len(body) // 2] if reply.is_cut else body
    return Answer(200, kind, (sent,), length=len(body), is_cut=reply.is_cut, delay_s=reply.delay_s)
