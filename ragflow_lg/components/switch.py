"""Switch: choose the first case whose conditions are met."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, model_validator

from ragflow_lg.base.diagnostics import Finding
from ragflow_lg.base.lenient_values import as_list, as_map, as_text
from ragflow_lg.base.worker_tasks import SMALL_SIZE, measure
from ragflow_lg.component.decorator import RunContext, component
from ragflow_lg.component.spec import (
    ComponentOutputs,
    ComponentParams,
    OneOrMany,
    OptionalReference,
    Route,
    TemplateOrValue,
)
from ragflow_lg.dsl.conditions import OPERATORS, operator_name, parse_condition
from ragflow_lg.dsl.old_values import switch_holds
from ragflow_lg.dsl.value_types import ExpectedType
from ragflow_lg.dsl.variable_references import Template, scope_of
from ragflow_lg.models.chat_params import rename_params


def _known_operator(value: Any, info: ValidationInfo) -> Any:
    """Read the operator. Items without a reference are blank rows from the editor, so their operators are ignored."""
    if "cpn_id" in info.data and info.data["cpn_id"] is None:
        return "="
    try:
        return operator_name(value) if isinstance(value, str) else value
    except ValueError:
        if (scope := scope_of(info)) is not None and scope.is_old:
            return value  # the node fails when it compares
        raise


_ORDERED = frozenset({">", "<", "≥", "≤"})
_COMPARABLE = frozenset({"number", "integer", "string"})


class Item(BaseModel):
    """One test; skipped if it has no reference."""

    model_config = ConfigDict(frozen=True, defer_build=True, arbitrary_types_allowed=True)

    cpn_id: OptionalReference = None
    """The value to test."""
    operator: Annotated[str, BeforeValidator(_known_operator), Field(examples=list(OPERATORS))] = "="
    value: TemplateOrValue = ""
    """The value to compare with: text, which may contain references, or any other value."""


class Condition(BaseModel):
    """One case: all items must be true if ``logical_operator`` is ``and``, or else at least one, as in RAGFlow."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    logical_operator: str | None = Field(None, examples=["and", "or"])
    items: list[Item] = Field(default_factory=list[Item])
    to: OneOrMany[str] = Field(min_length=1)
    """Ids of the next components."""

    @property
    def needs_all(self) -> bool:
        """Whether all items must be true."""
        return self.logical_operator == "and"

    @model_validator(mode="before")
    @classmethod
    def _expand_condition(cls, data: Any) -> Any:
        """Read the simplified ``condition: "{a@x} > 5"``, and RAGFlow 1.0's ``clauses``: ``{left, op, right}`` each."""
        fields = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
        has_items = fields.get("items") if fields.get("clauses") else "items" in fields
        if "clauses" in fields and not has_items:
            clauses = [as_map(clause) for clause in as_list(fields["clauses"])]
            if not clauses or not all(as_text(clause.get("left")).strip() for clause in clauses):
                raise ValueError("clauses must be a list of maps, each with a reference in left")
            tests = [
                {"cpn_id": clause["left"], "operator": clause.get("op") or "=", "value": clause.get("right", "")}
                for clause in clauses
            ]
            return {**fields, "logical_operator": fields.get("op") or "and", "items": tests}
        if "condition" not in fields or "items" in fields:
            return cast("Any", data)
        condition = parse_condition(str(fields["condition"]))
        if condition is None:
            raise ValueError(
                f"{fields['condition']!r} is not a condition such as {{a@x}} > 5, or several joined by 'and' or by 'or'"
            )
        logical, items = condition
        tests = [{"cpn_id": ref, "operator": operator, "value": literal} for ref, operator, literal in items]
        return {**fields, "logical_operator": logical, "items": tests}


class Params(ComponentParams):
    """Parameters of Switch."""

    conditions: list[Condition] = Field(min_length=1)
    end_cpn_ids: OneOrMany[str] = Field(min_length=1)
    """Ids of the next components if no case is met."""


class Outputs(ComponentOutputs):
    """``next``: the titles of the chosen successors; ``_next`` contains their ids."""

    next: list[str] = Field(default_factory=list[str])


def _routes(params: Params) -> Iterable[Route]:
    for index, condition in enumerate(params.conditions):
        yield Route(f"Case {index + 1}", tuple(condition.to), ("conditions", index, "to"))
    yield Route("Else", tuple(params.end_cpn_ids), ("end_cpn_ids",))


def _rewrite(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Read the simplified ``cases`` (``{condition, to}``), and ``default``, which RAGFlow 1.0 reads as well."""
    return rename_params(params, {"cases": "conditions", "default": "end_cpn_ids"})


def _expects(params: Params) -> Iterable[ExpectedType]:
    for case in params.conditions:
        for item in case.items:
            if item.cpn_id is not None and item.operator in _ORDERED:
                yield ExpectedType(item.cpn_id, _COMPARABLE, f"{item.operator} is never true for it")


def _lint(params: Params) -> Iterable[Finding]:
    for index, case in enumerate(params.conditions):
        if len(case.items) > 1 and case.logical_operator not in ("and", "or"):
            path = ("conditions", index, "logical_operator")
            problem = f"is {case.logical_operator!r}" if case.logical_operator else "is missing"
            message = f"The logical operator {problem}, so one item that is true is enough."
            yield Finding("params-invalid", "warning", path, message, "Write 'and' or 'or'.")
        for place, item in enumerate(case.items):
            if item.operator not in OPERATORS:
                path = ("conditions", index, "items", place, "operator")
                message = f"There is no operator {item.operator!r:.60}, so the node fails when it compares."
                yield Finding("params-invalid", "warning", path, message, f"Use one of {', '.join(OPERATORS)}.")


@component(
    "Switch",
    kind="route",
    params=Params,
    outputs=Outputs,
    routes=_routes,
    expects=_expects,
    lint=_lint,
    rewrite=_rewrite,
    unused=frozenset(["operators"]),
    timeout_s=3.0,
    effects="none",
    description="Continue with the first case whose conditions are met, otherwise with Else.",
    source="agent/component/switch.py",
)
async def switch(ctx: RunContext, params: Params) -> Outputs:
    """Return the targets of the first case that is met."""
    targets = await _choose(ctx, params)
    return Outputs.model_validate({"_next": targets, "next": [ctx.title_of(target) for target in targets]})


async def _choose(ctx: RunContext, params: Params) -> Sequence[str]:
    for case in params.conditions:
        if await _holds(ctx, case):
            return case.to
    return params.end_cpn_ids


async def _holds(ctx: RunContext, case: Condition) -> bool:
    items = [item for item in case.items if item.cpn_id is not None]
    if not case.needs_all:
        for item in items:
            if await _is_true(ctx, item):
                return True
        return False
    results = [await _is_true(ctx, item) for item in items]  # all, so that all their values are inputs of the node
    return bool(results) and all(results)


async def _is_true(ctx: RunContext, item: Item) -> bool:
    value = "" if item.cpn_id is None else ctx.value(item.cpn_id)
    literal = ctx.resolve(item.value)
    if measure((value, literal), SMALL_SIZE) > SMALL_SIZE:
        await asyncio.sleep(0)  # so that others run, and the time limit can end the node
    if ctx.compatibility.old_values:
        return switch_holds(value, item.operator, item.value.source if isinstance(item.value, Template) else item.value)
    return OPERATORS[item.operator](value, literal)
