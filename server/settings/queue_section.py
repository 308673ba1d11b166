"""The section for the queue from which workers play runs."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, SecretStr

from ragflow_lg.server.settings.sections import Section

Share = Annotated[int, Field(ge=1, le=1000)]


class QueueSection(Section):
    """``[queue]``: runs are played by ``ragflow-lg worker`` processes. See ``docs/workers.md``."""

    url: SecretStr = SecretStr("")
    """A URL of Redis, as for ``checkpoints``. Without it, each server plays its own runs."""
    silence_s: Annotated[float, Field(ge=0.5, le=3600)] = 1.0
    """A worker that has been silent for this long is considered dead, and others continue its runs."""
    max_waiting: Annotated[int, Field(gt=0)] = 1000
    """How many runs may wait for a worker. Further requests are refused with 429."""
    max_bytes: Annotated[int, Field(gt=0)] = 256 * 1024**2
    """How long the requests of all runs that wait or are played may be together."""
    shares: dict[str, Share] = Field(default_factory=dict[str, Share])
    """The share of a tenant in the workers while others wait as well. Default: 1."""
