"""The sections for what components use: the sandbox of CodeExec, documents and speech."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator, model_validator

from ragflow_lg.adapters.code.code_settings import DEFAULT_LIMITS, CodeLimits, CodeSettings, Interpreters, Provider
from ragflow_lg.adapters.reports.report_settings import Paper, ReportSettings
from ragflow_lg.adapters.speech.endpoint_speech import AudioFormat, SpeechSettings, TranscriptionSettings
from ragflow_lg.server.settings.sections import EndpointSection, KeySection, Section, web_address


class CodeSection(KeySection):
    """``[code]``: where CodeExec runs programs, and their limits. See ``docs/code.md``."""

    provider: Provider = "auto"
    """``bubblewrap`` on this machine, ``http`` for a service, ``refuse`` for none. ``auto`` takes the service if it has
    a ``url``, otherwise Bubblewrap."""
    url: str = ""
    """Address of a sandbox service: RAGFlow's own, or ``ragflow-lg sandbox serve``. ``api_key`` is its key, if any."""
    bubblewrap: str = ""
    """Path of ``bwrap``. Default: the installed one."""
    python: str = ""
    """Path of the Python that runs programs. Default: the system's."""
    node: str = ""
    """Path of the Node.js that runs programs. Default: the system's."""
    folders: tuple[str, ...] = ()
    """Folders that programs in Bubblewrap can read, in addition to those of the system's programs and libraries."""
    concurrency: Annotated[int, Field(gt=0, le=256)] = 8
    """How many programs run at the same time. No tenant uses all of these slots."""
    timeout_s: Annotated[float, Field(gt=0, le=3600)] = DEFAULT_LIMITS.timeout_s
    memory_bytes: Annotated[int, Field(ge=64 * 1024**2)] = DEFAULT_LIMITS.memory_bytes

    @field_validator("url")
    @classmethod
    def _is_address(cls, value: str) -> str:
        return web_address(value) if value.strip() else ""

    @property
    def settings(self) -> CodeSettings:
        """The settings of the sandbox."""
        return CodeSettings(
            self.provider,
            self.url,
            self.api_key.read(),
            self.bubblewrap,
            limits=CodeLimits(timeout_s=self.timeout_s, memory_bytes=self.memory_bytes),
            interpreters=Interpreters(self.python, self.node, self.folders),
            concurrency=self.concurrency,
        )


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
