"""Settings from the environment: ``RAGFLOW_LG_NAME`` or ``RAGFLOW_LG_SECTION__NAME``, case-insensitive."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

PREFIX = "RAGFLOW_LG_"
FILE_VARIABLE = "RAGFLOW_LG_SETTINGS"
"""The variable that contains the path of the settings file."""

MAX_NAME = 80


def unknown_variables(settings: Iterable[str]) -> list[str]:
    """Return a line for each variable that looks like a setting but is not one. Values are not shown."""
    names = {*(PREFIX + name.upper() for name in settings), FILE_VARIABLE}
    problems: list[str] = []
    for variable in sorted(os.environ):
        first = variable.upper().removeprefix(PREFIX).partition("__")[0]
        if not variable.upper().startswith(PREFIX) or PREFIX + first in names:
            continue
        near = get_close_matches((PREFIX + first)[:MAX_NAME], names, n=1, cutoff=0.8)
        rest = variable[len(PREFIX) + len(first) :]
        hint = f" Did you mean {near[0]}{rest}?" if near else " Unset it or correct its name."
        problems.append(f"  {variable}: unknown setting.{hint}")
    return problems


def variable_name(place: Sequence[str | int]) -> str:
    """Return the variable that sets a given setting or an enclosing table, or ``""`` if none does."""
    variables = {name.upper(): name for name in os.environ}
    names = ("__".join([PREFIX + str(place[0]), *map(str, place[1:end])]) for end in range(len(place), 0, -1))
    return next((variables[name.upper()] for name in names if name.upper() in variables), "")
