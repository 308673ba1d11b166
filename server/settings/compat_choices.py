"""``[compat]``: RAGFlow's behaviours, for canvases that do not choose them, and the RAGFlow that clients expect."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BeforeValidator

from ragflow_lg.dsl.compatibility import read_choices

_WORDS = {"true": True, "1": True, "false": False, "0": False}


def _read_choice(value: Any) -> Any:
    """Read a text, as environment variables are. Pydantic would also accept words such as ``yes``."""
    return _WORDS.get(value.lower(), value) if isinstance(value, str) else value


def _check_names(choices: dict[str, Any]) -> dict[str, Any]:
    if problems := read_choices(choices)[1]:
        raise ValueError(" ".join(f"{problem.message} {problem.hint}" for problem in problems).removesuffix("."))
    return choices


CompatChoices: TypeAlias = Annotated[
    dict[str, Annotated[Any, BeforeValidator(_read_choice)]], AfterValidator(_check_names)
]
"""True or false by the name of the behaviour; the version by the name ``ragflow``."""
