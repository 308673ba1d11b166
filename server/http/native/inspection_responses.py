"""Response models for inspecting runs: stored steps, node executions, model calls, components run alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from msgspec.structs import asdict
from pydantic import BaseModel, Field

from ragflow_lg.base.lenient_values import as_list
from ragflow_lg.server.http.native.native_responses import MomentAnswer, build_answer, build_moment_answer

if TYPE_CHECKING:
    from ragflow_lg.component.events import ModelCalled
    from ragflow_lg.component.plan import Plan
    from ragflow_lg.dsl.redacted_view import RedactedView
    from ragflow_lg.engine.single_visit import ObservedVisit
    from ragflow_lg.runs.stored_variables import Moment, ShownVariable
    from ragflow_lg.services.chat import Usage

MAX_OUTPUT_CHARS = 200_000
_DETAILS: Mapping[str, Any] = {
    **dict.fromkeys(("model", "system", "answer", "error"), ""),
    **dict[str, Any](messages=[], images=0, tools=[], sampling={}, calls=[]),
}
"""What is shown of a model call, and its values if they are missing or of another type."""


class CostAnswer(BaseModel):
    """Tokens as the provider counted them, and their cost according to the prices in the settings."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: Annotated[float, Field(description="0 without prices.")] = 0.0


class ModelCallAnswer(BaseModel):
    """One call of a model, with the prompts as they were sent. Secrets are replaced by `***`, long texts are cut."""

    node: Annotated[str, Field(description="Id of the component.")]
    path: Annotated[str, Field(description="The component, or the tool in it that called the model.")]
    visit: Annotated[int, Field(description="Number of the component's execution in the run.")]
    place: Annotated[str, Field(description="Numbers of the enclosing rounds, separated by dots.")]
    start_ms: int
    seconds: float
    usage: CostAnswer
    model: str
    system: Annotated[str, Field(description="System prompt.")]
    messages: Annotated[list[Any], Field(description="Messages after the system prompt, as they were sent.")]
    images: Annotated[int, Field(description="Number of images.")]
    tools: Annotated[list[Any], Field(description="Names of the tools that were offered.")]
    sampling: dict[str, Any]
    answer: str
    calls: Annotated[list[Any], Field(description="Tool calls in the answer.")]
    error: Annotated[str, Field(description="Why the call failed; empty if it did not.")]


class VisitAnswer(BaseModel):
    """One execution of a component."""

    node: str
    title: str
    visit: int
    place: str
    start_ms: int
    seconds: float
    attempts: Annotated[int, Field(description="How often it was tried: more than once after errors.")]
    is_failed: bool
    notices: Annotated[
        list[str],
        Field(description="What did not fail it: messages that did not fit into a model's context, and so on."),
    ]
    usage: CostAnswer


class NodesAnswer(BaseModel):
    """The component executions and model calls of a run, oldest first."""

    visits: list[VisitAnswer]
    calls: list[ModelCallAnswer]
    dropped_calls: Annotated[int, Field(description="Number of earlier calls that are no longer stored.")]
    usage: Annotated[CostAnswer, Field(description="Sum over the visits.")]


class VariableAnswer(BaseModel):
    """A variable at a stored step. Secrets are replaced by `***`, long values are cut."""

    name: Annotated[str, Field(description="As `changes` takes it: `sys.x`, `env.x` or `node@output`.")]
    value: Any
    is_whole: Annotated[bool, Field(description="Whether `value` is exactly what is stored.")]
    change: Annotated[
        Literal["added", "changed", "removed", "same"], Field(description="Compared with the step before.")
    ]
    before: Annotated[Any, Field(description="Value before, if it was changed or removed.")]


class MomentWhole(MomentAnswer):
    """A stored step with its variables, changed ones first."""

    previous: Annotated[str, Field(description="Checkpoint of the step before; empty for the first one.")]
    variables: list[VariableAnswer]
    left_out: Annotated[int, Field(description="Number of variables that are not listed.")]


class NodeTestAnswer(BaseModel):
    """What a component did when it ran alone. A failed component is no problem: `error` contains the reason."""

    node: str
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    error: str
    seconds: float
    attempts: int
    usage: CostAnswer
    calls: list[ModelCallAnswer]


class ComponentAnswer(BaseModel):
    """A component and its parameters."""

    name: str
    description: str
    kind: str
    params_schema: Annotated[dict[str, Any], Field(description="JSON Schema of the parameters in a canvas.")]
    parameters: Annotated[list[dict[str, Any]], Field(description="What the parameters are for, with types in words.")]
    common: Annotated[list[str], Field(description="Parameters that every component has.")]


def build_run_nodes(visits: Sequence[Any], calls: Sequence[Any], dropped: int, plan: Plan) -> NodesAnswer:
    """Build the answer from the entries of a stored log. Entries that are damaged are left out."""
    rows = [_build_visit(entry, plan) for entry in _maps(visits)]
    usages = [row.usage for row in rows]
    total = CostAnswer(
        prompt_tokens=sum(usage.prompt_tokens for usage in usages),
        completion_tokens=sum(usage.completion_tokens for usage in usages),
        cost=sum(usage.cost for usage in usages),
    )
    answers = [_build_stored_call(entry) for entry in _maps(calls)]
    return NodesAnswer(visits=rows, calls=answers, dropped_calls=dropped, usage=total)


def build_moment_whole(moment: Moment, variables: Sequence[ShownVariable], left_out: int, plan: Plan) -> MomentWhole:
    """Build the answer for a stored step."""
    rows = [VariableAnswer(**asdict(row)) for row in variables]
    fields = vars(build_moment_answer(moment.info, plan))
    return MomentWhole(**fields, previous=moment.previous, variables=rows, left_out=left_out)


def build_node_run(visited: ObservedVisit, view: RedactedView) -> NodeTestAnswer:
    """Build the answer for a component that ran alone."""
    finished = visited.finished
    return NodeTestAnswer(
        node=finished.node,
        inputs=cast("dict[str, Any]", view.value(finished.inputs, MAX_OUTPUT_CHARS)),
        outputs=cast("dict[str, Any]", view.value(finished.outputs, MAX_OUTPUT_CHARS)),
        error=view.text(finished.error or ""),
        seconds=finished.elapsed_s,
        attempts=finished.attempts,
        usage=_build_cost(finished.usage),
        calls=[_build_call(call) for call in visited.calls],
    )


def _build_cost(usage: Usage | None) -> CostAnswer:
    return build_answer(CostAnswer, usage) if usage is not None else CostAnswer()


def _build_call(call: ModelCalled) -> ModelCallAnswer:
    usage = [call.usage.prompt_tokens, call.usage.completion_tokens, call.usage.cost]
    names = ("node", "path", "visit", "place", "created_at", "seconds")
    place: dict[str, Any] = {name: getattr(call, name) for name in names}
    return _build_stored_call({**place, "usage": usage, **call.details})


def _build_stored_call(entry: Mapping[str, Any]) -> ModelCallAnswer:
    details = {
        name: entry[name] if isinstance(entry.get(name), type(value)) else value for name, value in _DETAILS.items()
    }
    return ModelCallAnswer(**_read_common(entry), path=str(entry.get("path", "")), **details)


def _build_visit(entry: Mapping[str, Any], plan: Plan) -> VisitAnswer:
    fields = _read_common(entry)
    known = plan.nodes.get(fields["node"])
    return VisitAnswer(
        **fields,
        title=(known.title if known is not None else "") or fields["node"],
        attempts=round(_number(entry.get("attempts"))),
        is_failed=bool(entry.get("failed")),
        notices=[str(notice) for notice in as_list(entry.get("notices"))],
    )


def _read_common(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a stored execution and a stored call both say."""
    return {
        "node": str(entry.get("node", "")),
        "visit": round(_number(entry.get("visit"))),
        "place": str(entry.get("place", "")),
        "start_ms": round(_number(entry.get("created_at")) * 1000),
        "seconds": _number(entry.get("seconds")),
        "usage": _read_cost(entry.get("usage")),
    }


def _read_cost(value: Any) -> CostAnswer:
    parts = cast("list[Any]", value) if isinstance(value, list) else []
    if len(parts) != 3:
        return CostAnswer()
    prompt_tokens, completion_tokens, cost = map(_number, parts)
    return CostAnswer(prompt_tokens=round(prompt_tokens), completion_tokens=round(completion_tokens), cost=cost)


def _maps(entries: Sequence[Any]) -> list[Mapping[str, Any]]:
    return [cast("dict[str, Any]", entry) for entry in entries if isinstance(entry, dict)]


def _number(value: Any) -> float:
    """Return a number of a stored log, which something else may have changed; 0 if it is none."""
    is_number = isinstance(value, int | float) and math.isfinite(value) and abs(value) < 1e12
    return cast("float", value) if is_number else 0.0
