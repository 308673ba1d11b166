"""Where the parts are joined: catalog, compiler, services."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dsl_compiler import check_canvas, compile_canvas
from dsl_compiler.source import MAX_BYTES
from ragflow_lg.catalog import load_catalog
from ragflow_lg.errors import SettingsError

if TYPE_CHECKING:
    from ragflow_lg.callbacks import RunCallbacks
    from ragflow_lg.compiled import CompiledCanvas
    from ragflow_lg.diagnostics import Diagnostic
    from ragflow_lg.plan import Plan
    from ragflow_lg.registry import Registry
    from ragflow_lg.runner import Runner
    from ragflow_lg.services import Services
    from server.settings import Settings

__all__ = ["catalog", "check_file", "load_canvas", "open_runner", "open_services", "read_canvas"]


@lru_cache(maxsize=1)
def catalog() -> Registry:
    """Give the components of this installation, loaded once."""
    return load_catalog()


def load_canvas(source: Path | str | bytes | Mapping[str, Any]) -> CompiledCanvas:
    """Compile a canvas: a file by its path, the text or bytes of one, or the JSON object itself.

    A text that begins with ``{`` is a document, every other one a path. Compiled canvases are kept, by content.

    Raises:
        CompileError: if the canvas has errors.
        SettingsError: if the file cannot be read.
    """
    if isinstance(source, Mapping):
        return compile_canvas(source, catalog())
    is_document = isinstance(source, bytes) or (
        isinstance(source, str) and source.lstrip("\ufeff \r\n\t").startswith("{")
    )
    if is_document:
        return _compiled(source if isinstance(source, bytes) else str(source).encode("utf-8", "replace"))
    return _compiled(read_canvas(Path(source)))  # pyright: ignore[reportArgumentType] - no bytes are left


def check_file(path: Path) -> tuple[Plan | None, tuple[Diagnostic, ...], str]:
    """Check a file; give the plan if it can run, all diagnostics, and the text they point into."""
    content = read_canvas(path)
    plan, diagnostics = check_canvas(content, catalog())
    return plan, diagnostics, content.decode("utf-8", "replace")


def read_canvas(path: Path) -> bytes:
    """Read a file, of a too large one no more than is needed to say so.

    Raises:
        SettingsError: if it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
    except ValueError as error:  # a path that no system has
        reason = str(error)
    raise SettingsError(f"{str(path)!r} cannot be read: {reason}.")


@lru_cache(maxsize=64)
def _compiled(content: bytes) -> CompiledCanvas:
    return compile_canvas(content, catalog())


@asynccontextmanager
async def open_services(settings: Settings, *, model: str = "") -> AsyncGenerator[Services]:
    """Make the services that the settings describe, and close them again. ``model`` answers for every other."""
    from ragflow_lg.adapters.chat_models import ConfiguredModels
    from ragflow_lg.adapters.files import InlineFiles
    from ragflow_lg.adapters.http_client import GuardedHttpClient
    from ragflow_lg.adapters.system import RandomIds, SystemClock
    from ragflow_lg.services import Services

    models = ConfiguredModels(settings.chat_settings(override_model=model))
    http = GuardedHttpClient(settings.http_settings)
    try:
        yield Services(models, http, InlineFiles(), SystemClock(), RandomIds(), secrets=settings.secrets)
    finally:
        await models.aclose()
        await http.aclose()


@asynccontextmanager
async def open_runner(
    source: Path | str | bytes | Mapping[str, Any],
    *,
    model: str = "",
    checkpoint: str = "memory://",
    callbacks: Sequence[RunCallbacks] = (),
) -> AsyncGenerator[Runner]:
    """Open a runner of a canvas with the models and services of the settings, and close them again.

    ``model`` answers for every model of the canvas (``demo`` needs no key); ``checkpoint`` is the URL of the store of
    sessions; ``callbacks`` are told of every run, beside those that the settings ask for.

    Raises:
        CompileError: if the canvas has errors.
        SettingsError: if a file or a setting is wrong.
        CheckpointError: if the store cannot be opened.
    """
    from checkpoints import open_store
    from ragflow_lg.adapters.system import SystemClock
    from ragflow_lg.runner import Runner
    from server.settings import load_settings
    from server.telemetry import open_callbacks

    settings = load_settings(None)
    canvas = load_canvas(source)
    store = open_store(checkpoint, SystemClock(), prefix=settings.checkpoint_prefix, ttl_s=settings.checkpoint_ttl_s)
    async with (
        open_callbacks(settings) as more,
        store as opened,
        open_services(settings, model=model) as services,
    ):
        limit = settings.run.event_limit
        yield Runner(canvas, services, store=opened, event_limit=limit, callbacks=(*callbacks, *more))
