"""Speech: texts as audio, and audio as text."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from ragflow_lg.services.chat import Usage


class SpokenText(NamedTuple):
    """The audio of a text. ``usage`` counts the call, and the text's tokens as those of a prompt."""

    audio: bytes
    usage: Usage
    media_type: str = "audio/mpeg"


class Speech(Protocol):
    """Speaks texts, and transcribes audio files."""

    @property
    def can_speak(self) -> bool:
        """Whether the settings contain a model that speaks."""
        ...

    @property
    def can_transcribe(self) -> bool:
        """Whether the settings contain a model that transcribes."""
        ...

    async def speak(self, text: str, tts_id: str) -> SpokenText:
        """Return the audio of a text. ``tts_id`` is the model's id; ``""`` is the first model in the settings.

        Raises:
            ServiceError: if the service fails, is too slow, or sends no audio.
            SettingsError: if the settings lack the model or its key.
        """
        ...

    async def transcribe(self, name: str, mime_type: str, content: bytes) -> str:
        """Return what is said in an audio file.

        Raises:
            ServiceError: if the service fails or is too slow, or the file is too large.
            SettingsError: if the settings lack the model or its key.
        """
        ...
