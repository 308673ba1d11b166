"""Speaking and transcribing by OpenAI-compatible endpoints."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ragflow_lg.adapters.http.http_client import GuardedHttpClient
from ragflow_lg.adapters.model_endpoint import EndpointSettings, endpoint_host
from ragflow_lg.base.errors import ForeignJsonError, ServiceError, SettingsError, foreign_line
from ragflow_lg.base.foreign_json import read_foreign_json
from ragflow_lg.base.json_scanner import JsonLimits
from ragflow_lg.base.tokens import estimate_tokens
from ragflow_lg.integrations.speech.speech_settings import (
    SpeechSettings,
    TranscriptionSettings,
    find_voice,
    speech_models,
)
from ragflow_lg.services.chat import Usage
from ragflow_lg.services.http import HttpClient, HttpRequest, HttpResponse
from ragflow_lg.services.speech import SpokenText
from ragflow_lg.services.workers import NoWorkers, Workers

if TYPE_CHECKING:
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.services.services import Services

MAX_TRANSCRIPT_CHARS = 1_000_000
MAX_TRANSCRIPT_BYTES = 8 * 1024 * 1024
"""Maximum size of an answer with a transcript, whose characters JSON may escape."""
_MAX_DETAIL_CHARS = 300
_BYTES = "application/octet-stream"
_TYPES = {"mp3": "audio/mpeg", "opus": "audio/ogg"}
"""Media types that are not named like their formats."""


class EndpointSpeech:
    """The `ragflow_lg.services.speech.Speech` of the settings. All requests use one guarded client."""

    def __init__(
        self,
        voices: Mapping[str, SpeechSettings],
        transcription: TranscriptionSettings | None,
        http: HttpClient,
        workers: Workers | None = None,
    ) -> None:
        """Initialize. ``workers`` read transcripts."""
        self._voices = voices
        self._workers = workers or NoWorkers()
        self._transcription = transcription
        self._http = http

    def for_tenant(self, settings: Settings, services: Services) -> EndpointSpeech:
        """Return the models of a tenant, with the same client."""
        return EndpointSpeech(*speech_models(settings), self._http, self._workers)

    @property
    def can_speak(self) -> bool:
        """Whether the settings contain a model that speaks."""
        return bool(self._voices)

    @property
    def can_transcribe(self) -> bool:
        """Whether the settings contain a model that transcribes."""
        return self._transcription is not None

    async def speak(self, text: str, tts_id: str) -> SpokenText:
        """Return the audio of a text; see `ragflow_lg.services.speech.Speech`."""
        settings = find_voice(tts_id, self._voices)
        body: dict[str, Any] = {"model": settings.model, "input": text, "voice": settings.voice}
        body |= {"response_format": settings.format, "speed": settings.speed}
        request = HttpRequest(
            "POST",
            f"{settings.base_url.rstrip('/')}/audio/speech",
            headers=settings.headers,
            json=body,
            timeout_s=settings.timeout_s,
            max_response_bytes=settings.max_audio_bytes,
            is_binary=True,
        )
        response = await self._send(request, settings, "speech model")
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if not response.content or kind.startswith(("text/", "image/")) or "json" in kind or "xml" in kind:
            what = f": its answer is {kind!r:.80}" if response.content else ""
            raise ServiceError(f"The speech model {settings.model!r} sent no audio{what}.")
        cost = settings.price * len(text) / 1_000_000
        media_type = kind if kind.startswith("audio/") else _TYPES.get(settings.format, f"audio/{settings.format}")
        return SpokenText(response.content, Usage(estimate_tokens(text), 0, 1, cost), media_type)

    async def transcribe(self, name: str, mime_type: str, content: bytes) -> str:
        """Return what is said in an audio file; see `ragflow_lg.services.speech.Speech`."""
        settings = self._transcription
        if settings is None:
            raise SettingsError("There is no model that transcribes audio: add [transcription] to the settings.")
        if len(content) > settings.max_audio_bytes:
            raise ServiceError(
                f"The audio file {name!r} has {len(content):,} bytes; at most {settings.max_audio_bytes:,} are sent."
            )
        import httpx

        fields = {"model": settings.model, "response_format": "json"}
        fields |= {"language": settings.language} if settings.language else {}
        url = f"{settings.base_url.rstrip('/')}/audio/transcriptions"
        form = httpx.Request("POST", url, data=fields, files={"file": (_file_name(name), content, _BYTES)})
        headers = {**settings.headers, "Content-Type": form.headers["content-type"]}
        request = HttpRequest("POST", url, headers=headers, body=form.read(), timeout_s=settings.timeout_s)
        response = await self._send(request, settings, "transcription model")
        return await self._read_transcript(response.text, settings.model)

    async def _read_transcript(self, text: str, model: str) -> str:
        answer: object = None
        with suppress(ForeignJsonError):
            answer = await self._workers.run(read_foreign_json, text, JsonLimits(MAX_TRANSCRIPT_BYTES))
        transcript = answer.get("text") if isinstance(answer, dict) else None
        if not isinstance(transcript, str):
            raise ServiceError(f"The transcription model {model!r} sent no text.")
        return transcript[:MAX_TRANSCRIPT_CHARS].strip()

    async def _send(self, request: HttpRequest, settings: EndpointSettings, what: str) -> HttpResponse:
        what = f"{what} {settings.model!r}"
        if settings.key_problem:
            raise SettingsError(f"The {what} cannot be used: {settings.key_problem}.")
        try:
            response = await self._http.send(request)
        except ServiceError as error:
            raise ServiceError(f"The {what} is not available: {error}") from error
        if response.status != 200:
            text = response.text or response.content[:4_096].decode("utf-8", "replace")
            detail = foreign_line(text, [settings.api_key], _MAX_DETAIL_CHARS) or "nothing"
            raise ServiceError(f"The {what} answered with status {response.status}: {detail}")
        return response


@asynccontextmanager
async def open_speech(settings: Settings, services: Services) -> AsyncGenerator[EndpointSpeech]:
    """Open the models. Their endpoints may be in the private network, since they are set in the settings."""
    voices, transcription = speech_models(settings)
    hosts = [endpoint_host(each.base_url) for each in (*voices.values(), transcription) if each]
    rules = replace(settings.http_settings, allow=(*settings.http_settings.allow, *hosts))
    async with aclosing(GuardedHttpClient(rules)) as http:
        yield EndpointSpeech(voices, transcription, http, services.workers)


def _file_name(name: str) -> str:
    """Return a name that every server can read."""
    quoted = name.encode("utf-8", "replace").decode().replace("\\", "_").replace('"', "_")
    return "".join(character for character in quoted if character.isprintable())
