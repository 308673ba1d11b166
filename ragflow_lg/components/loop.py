"""Loop: repeats its body while its conditions do not end it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from ragflow_lg.conditions import parse_condition
from ragflow_lg.errors import ComponentError
from ragflow_lg.spec import ComponentOutputs, ComponentParams, component

if TYPE_CHECKING:
    from ragflow_lg.context import RunContext

__all__ = ["loop"]

_OPPOSITE = {"=": "≠", "≠": "=", ">": "≤", "<": "≥", "≥": "<", "≤": ">", "contains": "not contains"}
_BARE_NAME = re.compile(r"\{\s*([A-Za-z_]\w*)\s*\}")


class Params(ComponentParams):
    """Parameters of Loop."""

    loop_variables: list[dict[str, Any]] = Field(default_factory=list[dict[str, Any]])
    """``{variable, input_mode, type, value}``; each becomes an output of the Loop."""
    loop_termination_condition: list[dict[str, Any]] = Field(default_factory=list[dict[str, Any]])
    """``{variable, operator, value, input_mode}``; tested before each round."""
    logical_operator: str | None = "and"
    maximum_loop_count: Annotated[int, Field(ge=0)] = 0


class Outputs(ComponentOutputs):
    """One output per loop variable."""


def _names(params: Params) -> Iterable[str]:
    return [str(row["variable"]) for row in params.loop_variables if row.get("variable")]


def _rewrite(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Read the simplified ``condition``, which says when to go on, and ``max_iterations``."""
    if "condition" not in params and "max_iterations" not in params:
        return params
    rest = {k: v for k, v in params.items() if k not in ("condition", "max_iterations")}
    if "max_iterations" in params:
        rest.setdefault("maximum_loop_count", params["max_iterations"])
    text = params.get("condition")
    parsed = parse_condition(_BARE_NAME.sub(r"{env.\1}", text)) if isinstance(text, str) else None
    if parsed is None:
        return rest if text in (None, "") else {**rest, "loop_termination_condition": text}
    logical, items = parsed
    rest["logical_operator"] = "or" if logical == "and" else "and"
    rest["loop_termination_condition"] = [
        {"variable": ref.strip("{} "), "operator": _OPPOSITE[operator], "value": literal}
        for ref, operator, literal in items
    ]
    return rest


@component(
    "Loop",
    kind="region",
    params=Params,
    outputs=Outputs,
    rewrite=_rewrite,
    output_names=_names,
    timeout_s=None,
    is_ready=False,
    description="Repeat the nodes inside until a condition holds.",
    source="agent/component/loop.py",
)
async def loop(ctx: RunContext, params: Params) -> Outputs:
    """Refuse to run: the compiler reports the component before a run can begin."""
    raise ComponentError("This version cannot run Loop.", node=ctx.node.id)
