"""The sections for what components use: the sandbox of CodeExec, documents and speech."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator, model_validator

from ragflow_lg.adapters.code.code_settings import DEFAULT_LIMITS, CodeLimits, CodeSettings, Interpreters, Provider
from ragflow_lg.adapters.reports.report_settings import Paper, ReportSettings
from ragflow_lg.adapters.speech.endpoint_speech import AudioFormat, SpeechSettings, TranscriptionSettings
from ragflow_lg.server.settings.sections import EndpointSection, KeySection, Section, web_address

Size = Annotated[int, Field(gt=0)]


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
    queue: Size = 100
    """How many of a tenant's programs may wait."""
    timeout_s: Annotated[float, Field(gt=0, le=3600)] = DEFAULT_LIMITS.timeout_s
    cpu_s: Annotated[int, Field(gt=0, le=3600)] = DEFAULT_LIMITS.cpu_s
    memory_bytes: Annotated[int, Field(ge=64 * 1024**2)] = DEFAULT_LIMITS.memory_bytes
    processes: Annotated[int, Field(ge=16)] = DEFAULT_LIMITS.processes
    output_bytes: Size = DEFAULT_LIMITS.output_bytes
    result_bytes: Size = DEFAULT_LIMITS.result_bytes
    code_bytes: Size = DEFAULT_LIMITS.code_bytes
    file_bytes: Size = DEFAULT_LIMITS.file_bytes
    scratch_bytes: Size = DEFAULT_LIMITS.scratch_bytes
    files: Size = DEFAULT_LIMITS.files
    artifacts: Size = DEFAULT_LIMITS.artifacts
    artifact_bytes: Size = DEFAULT_LIMITS.artifact_bytes
    artifact_types: tuple[str, ...] = DEFAULT_LIMITS.artifact_types
    """Extensions of files that programs may create for the user."""
    artifact_days: Annotated[float, Field(gt=0)] = 7.0
    """How long the server keeps such files."""

    @field_validator("url")
    @classmethod
    def _is_address(cls, value: str) -> str:
        return web_address(value) if value.strip() else ""

    @field_validator("artifact_types")
    @classmethod
    def _are_extensions(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if any(not extension.startswith(".") or extension != extension.lower() for extension in value):
            raise ValueError("should be extensions in lower case with their dot, such as .png")
        return value

    @property
    def settings(self) -> CodeSettings:
        """The settings of the sandbox."""
        return CodeSettings(
            self.provider,
            self.url,
            self.key_text(),
            self.bubblewrap,
            CodeLimits(**{name: getattr(self, name) for name in CodeLimits.__struct_fields__}),
            Interpreters(self.python, self.node, self.folders),
            self.concurrency,
            self.queue,
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
    inline_bytes: Annotated[int, Field(ge=0, le=4 * 1024**2)] = _DEFAULTS.inline_bytes
    """Maximum size of a file that the output ``download`` contains as Base64."""
    max_chars: Annotated[int, Field(gt=0, le=8 * 1024**2)] = _DEFAULTS.max_chars
    """Maximum length of a text."""
    max_images: Annotated[int, Field(ge=0)] = _DEFAULTS.max_images
    """Maximum number of images in a text."""
    image_bytes: Annotated[int, Field(ge=0)] = _DEFAULTS.image_bytes
    """Maximum total size of the images in a text."""

    @property
    def settings(self) -> ReportSettings:
        """The settings of the writer."""
        return ReportSettings(**{name: getattr(self, name) for name in ReportSettings.__struct_fields__})


class SpeechSection(EndpointSection):
    """``[speech."ID"]``: a model that speaks the Messages with ``auto_play``, by the ``tts_id`` of canvases.

    ``/audio/speech`` is appended to ``base_url``. Canvases without a ``tts_id`` use the first section.
    """

    voice: str = "alloy"
    format: AudioFormat = "mp3"
    speed: Annotated[float, Field(ge=0.25, le=4)] = 1.0
    timeout_s: Annotated[float, Field(gt=0, le=300)] = 15.0
    """Maximum duration of the request for one sentence."""
    max_audio_bytes: Annotated[int, Field(gt=0, le=4 * 1024**2)] = 1024**2
    """Maximum size of the audio of one sentence."""
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
    timeout_s: Annotated[float, Field(gt=0, le=600)] = 60.0
    max_audio_bytes: Annotated[int, Field(gt=0, le=10 * 1024**2)] = 10 * 1024**2
    """Maximum size of a file."""

    @model_validator(mode="after")
    def _has_address(self) -> TranscriptionSection:
        if not self.base_url:
            raise ValueError("has no base_url; set it to the address of the endpoint")
        return self

    @property
    def settings(self) -> TranscriptionSettings:
        """The settings of the model."""
        return TranscriptionSettings(**self.endpoint("whisper-1"))
