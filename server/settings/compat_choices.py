"""``[compat]``: RAGFlow's behaviours, for canvases that do not choose them."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BeforeValidator

from ragflow_lg.dsl.compatibility import read_choices


def _read_choice(value: Any) -> Any:
    """Read a text, as environment variables are. Pydantic would also accept words such as ``yes``."""
    choices = {"true": True, "1": True, "false": False, "0": False}
    if isinstance(value, str) and value.lower() in choices:
        return choices[value.lower()]
    if not isinstance(value, bool):
        raise ValueError("should be true or false")
    return value


def _check_names(choices: dict[str, bool]) -> dict[str, bool]:
    if problems := read_choices(choices)[1]:
        raise ValueError(" ".join(f"{problem.message} {problem.hint}" for problem in problems).removesuffix("."))
    return choices


CompatChoices: TypeAlias = Annotated[
    dict[str, Annotated[bool, BeforeValidator(_read_choice)]], AfterValidator(_check_names)
]
"""True or false by the name of the behaviour."""
