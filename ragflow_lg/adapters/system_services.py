"""The system clock and random ids."""

from __future__ import annotations

import secrets
import time
import uuid

from ragflow_lg.base.ids import RunId


class SystemClock:
    """The `ragflow_lg.services.services.Clock` of this machine."""

    def now(self) -> float:
        """Return the time in epoch seconds."""
        return time.time()  # noqa: TID251 - the only place that reads the system clock

    def monotonic(self) -> float:
        """Return the time in seconds of a clock that never goes backwards."""
        return time.monotonic()

    def local_time(self) -> str:
        """Return the local time as ``YYYY-MM-DD HH:MM:SS``."""
        return time.strftime("%Y-%m-%d %H:%M:%S")


class RandomIds:
    """Unpredictable `ragflow_lg.services.services.Ids`."""

    def run_id(self) -> RunId:
        """Return 32 hexadecimal digits."""
        return RunId(uuid.uuid4().hex)  # noqa: TID251 - the only place that creates ids

    def seed(self) -> int:
        """Return a positive seed; 0 would always choose the first alternative."""
        return 1 + secrets.randbelow(2**31 - 1)
