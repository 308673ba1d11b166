"""``ragflow-lg continue``: finish an interrupted turn."""

from __future__ import annotations

from ragflow_lg.server.cli.options import CanvasFile, RunOptions, Session, with_run_options


@with_run_options
def continue_(session: Session, options: RunOptions, canvas: CanvasFile = None) -> None:
    """Finish a turn that crashed or was stopped or cancelled.

    Only unfinished nodes run.

    Exit codes: same as `run`.

    Example: ragflow-lg continue anna
    """
    from ragflow_lg.server.cli.play import play_session

    play_session(session, lambda runner, name: runner.continue_(name), canvas_file=canvas, options=options)
