"""Disconnect policies, which determine what happens to a run when its last follower leaves."""

from __future__ import annotations

import math
import re

from msgspec import Struct

from ragflow_lg.base.errors import SettingsError

_GRACE = re.compile(r"grace:([0-9]{1,6}(?:\.[0-9]{1,3})?)")


class DisconnectPolicy(Struct, frozen=True):
    """How long a run continues without followers before it is cancelled.

    A ``grace_s`` of 0 cancels the run immediately; an infinite one lets it run to the end.
    """

    grace_s: float

    def __str__(self) -> str:
        if self.grace_s == 0:
            return "cancel"
        return "continue" if math.isinf(self.grace_s) else f"grace:{self.grace_s:g}"


CANCEL = DisconnectPolicy(0.0)
CONTINUE = DisconnectPolicy(math.inf)
DEFAULT_POLICY = DisconnectPolicy(30.0)
"""Long enough for browsers and proxies to reconnect, but short enough not to waste money on unread answers."""


def parse_policy(text: str) -> DisconnectPolicy:
    """Parse ``cancel``, ``continue`` or ``grace:SECONDS``.

    Raises:
        SettingsError: For any other text.

    >>> str(parse_policy("grace:2.5"))
    'grace:2.5'
    """
    if text == "cancel":
        return CANCEL
    if text == "continue":
        return CONTINUE
    if match := _GRACE.fullmatch(text):
        return DisconnectPolicy(float(match[1]))
    raise SettingsError(f"Unknown disconnect policy {text[:40]!r}: use cancel, continue or grace:SECONDS.")
