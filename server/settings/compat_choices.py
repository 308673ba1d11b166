"""``[compat]``: RAGFlow's behaviours, for canvases that do not choose them, and the RAGFlow that clients expect."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator

from ragflow_lg.dsl.compatibility import RAGFLOW, read_choices

_WORDS = {"true": True, "1": True, "false": False, "0": False}


def _read_choices(declared: dict[str, Any]) -> dict[str, Any]:
    """Read texts, as environment variables are. Pydantic would also accept words such as ``yes``."""
    read = {
        name: _WORDS.get(value.lower(), value) if isinstance(value, str) and name != RAGFLOW else value
        for name, value in declared.items()
    }
    choices, problems = read_choices(read)
    if problems:
        raise ValueError(" ".join(f"{problem.message} {problem.hint}" for problem in problems).removesuffix("."))
    return choices


CompatChoices: TypeAlias = Annotated[dict[str, Any], AfterValidator(_read_choices)]
"""True or false by the name of the behaviour; the version by the name ``ragflow``."""
