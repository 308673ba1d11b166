"""The machine's clock and its randomness."""

from __future__ import annotations

import secrets
import time
import uuid

from ragflow_lg.base.ids import RunId

__all__ = ["RandomIds", "SystemClock"]


class SystemClock:
    """The `ragflow_lg.services.services.Clock` of this machine."""

    def now(self) -> float:
        """Give epoch seconds."""
        return time.time()  # noqa: TID251 - the one place

    def monotonic(self) -> float:
        """Give seconds that never go back."""
        return time.monotonic()

    def local_time(self) -> str:
        """Give the local time as ``YYYY-MM-DD HH:MM:SS``."""
        return time.strftime("%Y-%m-%d %H:%M:%S")


class RandomIds:
    """Unforeseeable `ragflow_lg.services.services.Ids`."""

    def run_id(self) -> RunId:
        """Give 32 hexadecimal digits."""
        return RunId(uuid.uuid4().hex)  # noqa: TID251 - the one place

    def seed(self) -> int:
        """Give a seed above 0, for 0 always draws the first alternative."""
        return 1 + secrets.randbelow(2**31 - 1)
