"""The speech models of the settings."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ragflow_lg.server.assembly.knowledge_sources import endpoint_host
from ragflow_lg.services.speech import NoSpeech

if TYPE_CHECKING:
    from ragflow_lg.adapters.speech.endpoint_speech import SpeechSettings, TranscriptionSettings
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.services.speech import Speech
    from ragflow_lg.services.workers import Workers


@asynccontextmanager
async def open_speech(settings: Settings, workers: Workers) -> AsyncGenerator[Speech]:
    """Open the models. Their endpoints may be in the private network, since they are set in the settings."""
    addresses = [section.address(id_) for id_, section in settings.speech.items()]
    addresses += [settings.transcription.base_url] if settings.transcription else []
    if not addresses:
        yield NoSpeech()
        return
    from ragflow_lg.adapters.http.http_client import GuardedHttpClient
    from ragflow_lg.adapters.speech.endpoint_speech import EndpointSpeech

    hosts = tuple(endpoint_host(address) for address in addresses)
    rules = replace(settings.http_settings, allow=(*settings.http_settings.allow, *hosts))
    async with aclosing(GuardedHttpClient(rules)) as http:
        yield EndpointSpeech(*speech_models(settings), http, workers)


def restrict_speech(speech: Speech, settings: Settings) -> Speech:
    """Return the models of a tenant, with the connections of all."""
    from ragflow_lg.adapters.speech.endpoint_speech import EndpointSpeech

    return speech.restrict(*speech_models(settings)) if isinstance(speech, EndpointSpeech) else speech


def speech_models(settings: Settings) -> tuple[dict[str, SpeechSettings], TranscriptionSettings | None]:
    """Return the settings of the models that speak, by id, and of the model that transcribes."""
    voices = {id_: section.settings(id_) for id_, section in settings.speech.items()}
    return voices, settings.transcription.settings if settings.transcription else None
