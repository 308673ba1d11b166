"""``ragflow-lg continue``: go on with a turn that was interrupted."""

from __future__ import annotations

from ragflow_lg.server.cli.options import (
    CanvasFile,
    Checkpoint,
    EventsOption,
    Model,
    Record,
    Replay,
    ReplayMode,
    ReplayModeOption,
    Session,
    SettingsFile,
    TraceOption,
)

__all__ = ["continue_"]


def continue_(
    session: Session,
    canvas: CanvasFile = None,
    model: Model = "",
    record: Record = None,
    replay: Replay = None,
    replay_mode: ReplayModeOption = ReplayMode.STRICT,
    settings: SettingsFile = None,
    checkpoint: Checkpoint = "",
    events: EventsOption = None,
    trace: TraceOption = False,
) -> None:
    """Go on with a turn after a crash, a stop or a cancel: only what is unfinished runs.

    Exit codes are those of run.

    Example: ragflow-lg continue anna
    """
    from ragflow_lg.server.cli.next_step_hints import Place
    from ragflow_lg.server.cli.play import TapeOptions, play_session

    play_session(
        session,
        lambda runner, name: runner.continue_(name),
        canvas_file=canvas,
        place=Place(checkpoint, settings, model),
        tapes=TapeOptions(record, replay, replay_mode),
        events=events,
        has_trace=trace,
    )
