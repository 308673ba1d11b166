"""Opens recordings. Secrets are collected before the first request."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragflow_lg.adapters.recording.player import Player
    from ragflow_lg.adapters.recording.recorder import Recorder
    from ragflow_lg.component.plan import Plan


@contextmanager
def open_recording(
    record: Path | str = "",
    replay: Path | str = "",
    *,
    plan: Plan | None = None,
    is_loose: bool = False,
    secrets: Iterable[str] = (),
    sources: Iterable[str | bytes | Mapping[str, Any]] = (),
) -> Generator[Recorder | Player | None]:
    """Open a recorder or a player for a run. Yield None if neither is requested.

    ``secrets`` contains secret values. The fields in ``sources`` and in the canvases in ``plan`` may contain more of
    them. No secrets are written to the file.

    Raises:
        CassetteError: If the file cannot be read or written.
    """
    if not record and not replay:
        yield None
        return
    from ragflow_lg.adapters.recording.cassette import CassetteWriter
    from ragflow_lg.adapters.recording.player import Player
    from ragflow_lg.adapters.recording.recorder import Recorder
    from ragflow_lg.dsl.redaction import Redactor

    redactor = Redactor(secrets)
    for source in sources:
        redactor.learn_from(_value(source))
    if plan is not None:
        redactor.learn_all(plan.redactor)
    if replay:
        yield Player(Path(replay), redactor, is_loose=is_loose)
        return
    with CassetteWriter(Path(record)) as writer:
        yield Recorder(writer, redactor)


def _value(source: str | bytes | Mapping[str, Any]) -> Any:
    """Return a document as a JSON value, or as text if it is not JSON."""
    if isinstance(source, Mapping):
        return source
    text = source.decode("utf-8-sig", "replace") if isinstance(source, bytes) else source.lstrip("\ufeff")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
