"""The result type of probes."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["CheckResult"]


class CheckResult(Struct, frozen=True):
    """The result of one check, with advice if there is something to do."""

    is_well: bool
    what: str
    advice: str = ""
