"""The sections for what components use: documents and speech."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from ragflow_lg.adapters.reports.report_settings import Paper, ReportSettings
from ragflow_lg.adapters.speech.endpoint_speech import AudioFormat, SpeechSettings, TranscriptionSettings
from ragflow_lg.server.settings.sections import EndpointSection, Section

_DEFAULTS = ReportSettings()


class ReportsSection(Section):
    """``[reports]``: fonts, paper, images and limits of DocGenerator and of Message's ``output_format``."""

    fonts: tuple[str, ...] = ()
    """Families of fonts that precede the built-in one, by name."""
    font_folders: tuple[str, ...] = ()
    """Folders with further fonts."""
    system_fonts: bool = True
    """Whether PDF files use the fonts of the system."""
    paper: Paper = _DEFAULTS.paper
    """The size of pages."""
    fetch_images: bool = False
    """Whether images at web addresses are fetched, under the rules of ``[http]``."""

    @property
    def settings(self) -> ReportSettings:
        """The settings of the writer."""
        return ReportSettings(**self.model_dump())


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
