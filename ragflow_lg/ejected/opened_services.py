"""Opens the services of a graph according to the settings."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ragflow_lg.services.services import Services

if TYPE_CHECKING:
    from ragflow_lg.server.settings import Settings


@asynccontextmanager
async def open_services(
    *, model: str = "", settings: Settings | None = None, recording: Path | None = None
) -> AsyncGenerator[Services]:
    """Open the services of a graph: models, datasets, tools, files.

    Args:
        model: Replaces every model; ``demo`` needs no settings.
        settings: By default those of ``ragflow-lg.toml`` and the environment.
        recording: A recording of a run, which answers instead of the services.

    Raises:
        SettingsError: if the settings cannot be read.
        CassetteError: if the recording cannot be read.
    """
    from ragflow_lg.server.assembly.open_services import open_services as open_all
    from ragflow_lg.server.assembly.recordings import open_recording
    from ragflow_lg.server.settings import load_settings

    chosen = settings or load_settings(None)
    with open_recording(replay=recording or "") as tape:
        async with open_all(chosen, model=model, recording=tape) as services:
            yield services
