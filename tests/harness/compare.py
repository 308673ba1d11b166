"""Comparison of the results of a case with the expected ones, field by field."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ragflow_lg.dsl.old_values import is_form
from tests.harness.cases import Case
from tests.harness.frames import answer_pieces, find_frame_problems
from tests.harness.node_order import find_order_problem
from tests.harness.play import TurnResult
from tests.harness.record import Record, record_expectation, record_result
from tests.harness.shown_text import find_shown_problems

EXTRA_OUTPUTS: Mapping[str, frozenset[str]] = {
    "Agent": frozenset({"use_tools"}),
    "Categorize": frozenset({"unmatched_answer"}),
    "Invoke": frozenset({"status_code", "headers"}),
    "VariableAssigner": frozenset({"errors"}),
}
"""Outputs that RAGFlow's components lack: rows use-tools, category-unmatched, invoke-more and assigner-errors."""


def differences(case: Case, results: Sequence[TurnResult]) -> dict[str, str]:
    """Return the first difference of each field that differs in any turn. Empty if the case passes."""
    problems_by_field: dict[str, str] = {}
    for number, (expect, result) in enumerate(zip(case.expected, results, strict=True)):
        expected, ours = record_expectation(expect, case.data["dsl"].get("components", {})), record_result(result)
        for field in expected:
            if field in ours and (problem := _problem(case, number, field, expected, ours, result)):
                problems_by_field.setdefault(field, f"turn {number + 1}: {problem}")
        if problems := find_frame_problems(
            result.frames, has_failed=result.error is not None, is_resumed=_is_resumed(results, number)
        ):
            problems_by_field.setdefault("frames", f"turn {number + 1}: {problems[0]}")
        if problems := find_shown_problems(result.frames, result.state, result.plan):
            problems_by_field.setdefault("shown", f"turn {number + 1}: {problems[0]}")
        if result.answer != "".join(answer_pieces(result.frames)):
            problems_by_field.setdefault("frames", f"turn {number + 1}: the run has another answer, {result.answer!r}")
    return problems_by_field


def _is_resumed(results: Sequence[TurnResult], number: int) -> bool:
    """Return whether the turn answers a form that the previous one has left open."""
    before, plan = results[number - 1].frames if number else (), results[number].plan
    forms = [id_ for id_, node in plan.nodes.items() if node.spec.kind == "interrupt"]
    is_answer = not plan.compatibility.old_values or any(map(is_form, forms))
    return bool(before) and before[-1]["event"] == "user_inputs" and is_answer


def _problem(case: Case, number: int, field: str, expected: Record, ours: Record, result: TurnResult) -> str:
    if field == "nodes":
        return find_order_problem(expected[field], ours[field], result.plan)
    if field == "pieces" and not any("chunks" in entry for entry in case.data["turns"][number].get("llm_script", ())):
        return ""  # only the pieces of models have to be equal
    accepted = [expected[field]]
    if field == "answer" and case.data.get("accept_answers"):
        accepted += case.data["accept_answers"][number]
    normalize = _NORMALIZERS.get(field)
    actual = ours[field]
    if field == "outputs":
        actual = _comparable_outputs(case, actual, expected[field])
    if normalize:
        actual, accepted = normalize(actual), [normalize(other) for other in accepted]
    return "" if actual in accepted else f"{field} {actual!r}, expected {accepted[0]!r}"


def _comparable_outputs(case: Case, outputs: Mapping[str, Any], expected: Mapping[str, Any]) -> dict[str, Any]:
    """Omit our extra outputs, and nulls of outputs that RAGFlow does not have.

    For a written case also omit the components that it does not mention.
    """
    nodes = set(outputs) if "events" in case.expected[0] else set(outputs) & set(expected)
    comparable: dict[str, Any] = {}
    for id_ in nodes:
        extra, listed = EXTRA_OUTPUTS.get(case.components[id_], ()), expected.get(id_, ())
        comparable[id_] = {k: v for k, v in outputs[id_].items() if k not in extra and (v is not None or k in listed)}
    return comparable


def _sort_calls(calls: Sequence[Any]) -> list[str]:
    """Sort calls, since those of parallel nodes have no fixed order."""
    return sorted(json.dumps(call, sort_keys=True, ensure_ascii=False) for call in calls)


_NORMALIZERS: dict[str, Callable[[Any], Any]] = {
    "llm_calls": _sort_calls,
    "http_calls": _sort_calls,
    "tool_calls": _sort_calls,
    "searches": _sort_calls,
    "sandbox_calls": _sort_calls,
}
