"""Switch: chooses the first case whose conditions hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo

from ragflow_lg.conditions import OPERATORS, compare, operator_name, parse_condition
from ragflow_lg.context import RunContext
from ragflow_lg.refs import Template, parse_template
from ragflow_lg.spec import ComponentOutputs, ComponentParams, OneOrMany, OptionalReference, Route, component

__all__ = ["switch"]


def _known_operator(value: Any) -> Any:
    name = operator_name(value) if isinstance(value, str) else None
    if name is None:
        raise ValueError(f"unknown operator; there are {', '.join(OPERATORS)}")
    return name


def _template_if_text(value: Any, info: ValidationInfo) -> Any:
    scope = (info.context or {}).get("scope")
    return parse_template(value, scope) if isinstance(value, str) else value


class Item(BaseModel):
    """One condition. One without a reference is skipped."""

    model_config = ConfigDict(frozen=True, defer_build=True, arbitrary_types_allowed=True)

    cpn_id: OptionalReference = None
    operator: Annotated[str, BeforeValidator(_known_operator)] = "="
    value: Annotated[Any, BeforeValidator(_template_if_text)] = None
    """A literal; text may hold references."""


class Condition(BaseModel):
    """One case: all its items must hold, or with any ``logical_operator`` but ``and`` one of them."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    logical_operator: str | None = "and"
    items: list[Item] = Field(default_factory=list[Item])
    to: OneOrMany[str] = Field(min_length=1)


class Params(ComponentParams):
    """Parameters of Switch."""

    conditions: list[Condition] = Field(min_length=1)
    end_cpn_ids: OneOrMany[str] = Field(min_length=1)
    """Where to go when no case holds."""


class Outputs(ComponentOutputs):
    """``_next``: ids of the chosen successors; ``next``: their titles."""


def _routes(params: Params) -> Iterable[Route]:
    for index, condition in enumerate(params.conditions):
        yield Route(f"Case {index + 1}", tuple(condition.to), ("conditions", index, "to"))
    yield Route("Else", tuple(params.end_cpn_ids), ("end_cpn_ids",))


def _rewrite(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Read the simplified ``cases`` (``{condition: "{a@x} > 5", to}``) and ``default``."""
    cases = params.get("cases")
    if not isinstance(cases, list) or "conditions" in params:
        return params
    rest = {key: value for key, value in params.items() if key not in ("cases", "default")}
    conditions = [_case(cast("Mapping[str, Any]", case)) for case in cast("list[Any]", cases) if isinstance(case, Mapping)]
    return {**rest, "conditions": conditions, "end_cpn_ids": params.get("default", params.get("end_cpn_ids", []))}


def _case(case: Mapping[str, Any]) -> dict[str, Any]:
    text = str(case.get("condition", ""))
    parsed = parse_condition(text)
    if parsed is None:
        return {"to": case.get("to", []), "items": [{"cpn_id": text or "?", "operator": "?"}]}
    logical, items = parsed
    return {
        "logical_operator": logical,
        "to": case.get("to", []),
        "items": [{"cpn_id": ref, "operator": operator, "value": literal} for ref, operator, literal in items],
    }


@component(
    "Switch",
    kind="route",
    params=Params,
    outputs=Outputs,
    routes=_routes,
    rewrite=_rewrite,
    timeout_s=3.0,
    description="Go on along the first case whose conditions hold, else along Else.",
    source="agent/component/switch.py",
)
async def switch(ctx: RunContext, params: Params) -> Outputs:
    """Choose the targets."""
    chosen = next((c.to for c in params.conditions if _holds(ctx, c)), params.end_cpn_ids)
    return Outputs(_next=list(chosen), next=[ctx.title_of(target) for target in chosen])


def _holds(ctx: RunContext, condition: Condition) -> bool:
    items = [item for item in condition.items if item.cpn_id is not None]
    if (condition.logical_operator or "and").lower() != "and":
        return any(_is_true(ctx, item) for item in items)
    return bool(items) and all(_is_true(ctx, item) for item in items)


def _is_true(ctx: RunContext, item: Item) -> bool:
    assert item.cpn_id is not None
    right = ctx.resolve(item.value) if isinstance(item.value, Template) else item.value
    return compare(ctx.value(item.cpn_id), item.operator, "" if right is None else right)
