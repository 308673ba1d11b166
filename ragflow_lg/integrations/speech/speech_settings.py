"""Settings of the models that speak and transcribe, and their sections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypeAlias

from pydantic import Field

from ragflow_lg.adapters.model_endpoint import EndpointSettings, find_model_id, list_models
from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.settings.sections import EndpointSection

if TYPE_CHECKING:
    from ragflow_lg.server.settings import Settings

AudioFormat: TypeAlias = Literal["mp3", "wav", "opus", "aac", "flac", "pcm"]


class SpeechSettings(EndpointSettings, frozen=True):
    """A model that speaks."""

    timeout_s: float = 15.0
    voice: str = "alloy"
    format: AudioFormat = "mp3"
    speed: float = 1.0
    max_audio_bytes: int = 1024 * 1024
    price: float = 0.0
    """Per million characters."""


class TranscriptionSettings(EndpointSettings, frozen=True):
    """The model that transcribes."""

    language: str = ""
    max_audio_bytes: int = 10 * 1024 * 1024


class SpeechSection(EndpointSection):
    """``[speech."ID"]``: a model that speaks the Messages with ``auto_play``, by the ``tts_id`` of canvases.

    ``/audio/speech`` is appended to ``base_url``. Canvases without a ``tts_id`` use the first section.
    """

    voice: str = "alloy"
    format: AudioFormat = "mp3"
    price: Annotated[float, Field(ge=0)] = 0.0
    """Per million characters, in any currency."""


SpeechSections = dict[str, SpeechSection]


class TranscriptionSection(EndpointSection):
    """``[transcription]``: the model that transcribes the audio files of requests.

    ``/audio/transcriptions`` is appended to ``base_url``.
    """

    shared: ClassVar[str] = "*"

    language: str = ""
    """The language that is spoken, such as ``en``; ``""`` lets the model find out."""

    def check(self, name: str) -> None:
        """Raise SettingsError if there is no address although something is set."""
        if self.model_fields_set:
            super().check("whisper-1")


def speech_models(settings: Settings) -> tuple[dict[str, SpeechSettings], TranscriptionSettings | None]:
    """Return the models that speak, by id, and the one that transcribes.

    Raises:
        SettingsError: if one has no address.
    """
    voices = {id_: SpeechSettings(**each.endpoint(id_)) for id_, each in settings.section(SpeechSections).items()}
    section = settings.section(TranscriptionSection)
    return voices, TranscriptionSettings(**section.endpoint("whisper-1")) if section.base_url else None


def find_voice(tts_id: str, voices: Mapping[str, SpeechSettings]) -> SpeechSettings:
    """Return the settings of a model by the id in a canvas; ``""`` is the first one.

    Raises:
        SettingsError: if there is no such model.
    """
    if not tts_id and voices:
        return next(iter(voices.values()))
    if (key := find_model_id(tts_id, voices)) is not None:
        return voices[key]
    wanted = f"no speech model {tts_id[:200]!r}" if tts_id else "no model that speaks"
    section = f'[speech."{tts_id[:200]}"]' if tts_id else "[speech.ID]"
    raise SettingsError(f"There is {wanted} in the settings: add {section} with base_url.{list_models(voices)}")


def find_problem(settings: Settings, tts_id: str) -> str:
    """Return what is wrong with the model for the id in a canvas, or ``""``."""
    try:
        voice = find_voice(tts_id, speech_models(settings)[0])
    except SettingsError as error:
        return f"The answer is not spoken. {error}"
    return f"The key of {voice.model!r} is missing: {voice.key_problem}. Put it there." if voice.key_problem else ""
