"""RAGFlow's routes that speak a text and transcribe a file, by the models of the settings."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.base.errors import RequestError, ServiceError, SettingsError
from ragflow_lg.server.http.shared.auth import ApiCaller, Authenticated, get_app_state, get_turns
from ragflow_lg.server.http.shared.event_stream import await_while_connected
from ragflow_lg.server.http.shared.ragflow_routes import Fields, Text, make_router, with_examples
from ragflow_lg.server.http.shared.request_bodies import Upload, is_multipart, parse_flag, read_parts
from ragflow_lg.server.http.shared.responses import encode_json, respond
from ragflow_lg.services.speech import Speech

router = make_router("RAGFlow: speech")

MAX_CHARS = 4_096
"""Maximum length of a text that is spoken: that of OpenAI's endpoint."""
SPEECH_S = 120.0

T = TypeVar("T")


class SpokenBody(Fields):
    """A text to speak."""

    model_config = with_examples({"text": "Your parcel arrives tomorrow."})

    text: Text = ""


@router.post("/chat/audio/speech", responses={200: {"content": {"audio/*": {}}}})
async def speak(body: SpokenBody, request: Request, caller: Authenticated) -> Response:
    """Speak a text with the first model of `[speech]`."""
    text = body.text.strip()
    if not 0 < len(text) <= MAX_CHARS:
        raise RequestError(f"`text` must have 1 to {MAX_CHARS:,} characters.", 101)
    quotas, speech = get_turns(request).quotas, _find_speech(request, caller)
    await quotas.begin_turn(caller.tenant)
    spoken = await _await(request, speech.speak(text, ""))
    await quotas.add_usage(caller.tenant, spoken.usage)
    return Response(spoken.audio, media_type=spoken.media_type)


@router.post("/chat/audio/transcription")
async def transcribe(request: Request, caller: Authenticated) -> Response:
    """Return the text of an audio file: multipart, in the field `file`. With `stream`, it is one event."""
    parts = await read_parts(request, 1) if is_multipart(request) else []
    file = next((part for name, part in parts if name == "file" and isinstance(part, Upload)), None)
    if file is None:
        raise RequestError("Missing 'file' in multipart form-data")
    speech = _find_speech(request, caller)
    await get_turns(request).quotas.begin_turn(caller.tenant)
    text = await _await(request, speech.transcribe(file.name, file.mime_type, file.content))
    if any(name == "stream" and parse_flag(part) for name, part in parts):
        event = encode_json({"event": "final", "text": text})
        return Response(b"data: " + event + b"\n\n", media_type="text/event-stream")
    return respond({"text": text})


def _find_speech(request: Request, caller: ApiCaller) -> Speech:
    return get_app_state(request).services_of(caller.tenant).of(Speech)


async def _await(request: Request, work: Coroutine[Any, Any, T]) -> T:
    try:
        async with asyncio.timeout(SPEECH_S):
            return await await_while_connected(request, work)
    except (ServiceError, SettingsError) as error:
        raise RequestError(str(error)) from error
    except TimeoutError:
        raise RequestError("The model did not answer in time.") from None
