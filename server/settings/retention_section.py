"""The section for how long a server keeps data."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ragflow_lg.server.settings.sections import Section

Days = Annotated[float, Field(ge=0, le=36_500)]
"""0 stands for no limit."""


class RetentionSection(Section):
    """``[retention]``: the server deletes what is older, every ten minutes."""

    session_days: Days = 0.0
    """Sessions without a turn for so long, with their messages, runs, checkpoints, traces and events, also if they wait
    for an answer."""
    file_days: Days = 0.0
    """Uploaded files and files of runs that were stored before."""
