"""What a check of a store, or of something else in the settings, found."""

from __future__ import annotations

from msgspec import Struct


class CheckResult(Struct, frozen=True):
    """The result of one check, with advice if action is needed."""

    is_well: bool
    what: str
    advice: str = ""
