"""The sections for what components use: speech."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from ragflow_lg.adapters.speech.endpoint_speech import AudioFormat, SpeechSettings, TranscriptionSettings
from ragflow_lg.server.settings.sections import EndpointSection


class SpeechSection(EndpointSection):
    """``[speech."ID"]``: a model that speaks the Messages with ``auto_play``, by the ``tts_id`` of canvases.

    ``/audio/speech`` is appended to ``base_url``. Canvases without a ``tts_id`` use the first section.
    """

    voice: str = "alloy"
    format: AudioFormat = "mp3"
    price: Annotated[float, Field(ge=0)] = 0.0
    """Per million characters, in any currency."""

    def settings(self, id_: str) -> SpeechSettings:
        """Return the settings of the model."""
        return SpeechSettings(**self.endpoint(id_))


class TranscriptionSection(EndpointSection):
    """``[transcription]``: the model that transcribes the audio files of requests.

    ``/audio/transcriptions`` is appended to ``base_url``.
    """

    language: str = ""
    """The language that is spoken, such as ``en``; ``""`` lets the model find out."""

    @model_validator(mode="after")
    def _has_address(self) -> TranscriptionSection:
        if not self.base_url:
            raise ValueError("has no base_url; set it to the address of the endpoint")
        return self

    @property
    def settings(self) -> TranscriptionSettings:
        """The settings of the model."""
        return TranscriptionSettings(**self.endpoint("whisper-1"), timeout_s=60.0)
