"""Recording and replaying runs of small canvases."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ragflow_lg.adapters.recording.cassette import CassetteWriter
from ragflow_lg.adapters.recording.player import Player
from ragflow_lg.adapters.recording.recorder import Recorder
from ragflow_lg.dsl.redaction import Redactor
from ragflow_lg.runs.runner import Run
from ragflow_lg.services.services import Services
from ragflow_lg.services.tool_policies import ToolPolicies
from tests.fakes.regions import runner_of
from tests.fakes.services import CountedIds, FixedClock, NamedFiles, fake_services


def events_of(frames: Sequence[Any]) -> list[Any]:
    """Return the events without the fields that differ between runs."""
    volatile = ("created_at", "elapsed_time")
    return [(f.event, {k: v for k, v in f.data().items() if k not in volatile}) for f in frames]


async def play(components: dict[str, Any], services: Services, request: dict[str, Any]) -> tuple[Run, list[Any]]:
    """Play a turn; return the run and its events. ``deployment`` in the request is passed to the compiler."""
    deployment = request.pop("deployment", None)
    run = runner_of(components, services=services, deployment=deployment).start("s", request)  # type: ignore[arg-type] - a request is a partial map
    return run, events_of([frame async for frame in run])


async def record(
    path: Path, components: dict[str, Any], services: Services | None = None, query: Any = "q", **more: Any
) -> tuple[Run, list[Any]]:
    """Play a turn and record it."""
    with CassetteWriter(path) as writer:
        wrapped = Recorder(writer, Redactor()).wrap(services or fake_services())
        return await play(components, wrapped, {"query": query, **more})


async def replay(
    path: Path, components: dict[str, Any], query: Any = "q", *, is_loose: bool = False, **more: Any
) -> tuple[Run, list[Any], Player]:
    """Play a turn from a recording."""
    tape = Player(path, Redactor(), is_loose=is_loose)
    services = tape.wrap(tape.services(NamedFiles(), FixedClock(), CountedIds(), ToolPolicies()))
    run, events = await play(components, services, {"query": query, **more})
    return run, events, tape
