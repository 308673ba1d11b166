"""Holding what a turn gave against what it should give, field by field."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.harness.cases import Case
from tests.harness.frames import frame_problems
from tests.harness.node_order import order_problem
from tests.harness.play import TurnResult
from tests.harness.record import Record, of_recording, of_result

EXTRA_OUTPUTS: Mapping[str, frozenset[str]] = {
    "Agent": frozenset({"use_tools"}),
    "Invoke": frozenset({"status_code", "headers"}),
    "VariableAssigner": frozenset({"errors"}),
}
"""Outputs that RAGFlow's component does not have: rows ``use-tools``, ``invoke-more`` and ``assigner-errors``."""


def differences(case: Case, results: Sequence[TurnResult]) -> dict[str, str]:
    """Give the fields that differ in any turn, each with the first difference; nothing if the case passes."""
    found: dict[str, str] = {}
    for number, (expect, result) in enumerate(zip(case.expected, results, strict=True)):
        expected, ours = of_recording(expect, case.data["dsl"].get("components", {})), of_result(result)
        for field in expected:
            if field in ours and (problem := _problem(case, number, field, expected, ours, result)):
                found.setdefault(field, f"turn {number + 1}: {problem}")
        if problems := frame_problems(
            result.frames, has_failed=result.error is not None, is_resumed=_is_resumed(results, number)
        ):
            found.setdefault("frames", f"turn {number + 1}: {problems[0]}")
        if result.answer != "".join(_said(result)):
            found.setdefault("frames", f"turn {number + 1}: the run tells another answer, {result.answer!r}")
    return found


def _is_resumed(results: Sequence[TurnResult], number: int) -> bool:
    """Whether the turn before has left a form open."""
    return number > 0 and bool(results[number - 1].frames) and results[number - 1].frames[-1]["event"] == "user_inputs"


def _said(result: TurnResult) -> list[str]:
    said: list[str] = []
    is_thinking = False
    for frame in result.frames:
        if frame["event"] == "message":
            is_thinking = (is_thinking or "start_to_think" in frame) and "end_to_think" not in frame
            said += [] if is_thinking else [frame["content"]]
        elif frame["event"] == "message_end":
            is_thinking = False
    return said


def _problem(case: Case, number: int, field: str, expected: Record, ours: Record, result: TurnResult) -> str:
    if field == "nodes":
        return order_problem(expected[field], ours[field], result.plan)
    if field == "pieces" and not any("chunks" in entry for entry in case.data["turns"][number].get("llm_script", ())):
        return ""  # only a model's pieces have to be as they came
    accepted = [expected[field]]
    if field == "answer" and case.data.get("accept_answers"):
        accepted += case.data["accept_answers"][number]
    compare = _COMPARED.get(field)
    one, others = ours[field], accepted
    if field == "outputs":
        one = _own_outputs(case, one, expected[field])
    if compare:
        one, others = compare(one), [compare(other) for other in others]
    return "" if one in others else f"{field} {one!r}, expected {others[0]!r}"


def _own_outputs(case: Case, outputs: Mapping[str, Any], expected: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out our extra outputs, and null where RAGFlow has no such output.

    Where a case of our own states some components only, the others are left out too.
    """
    nodes = set(outputs) if "events" in case.expected[0] else set(outputs) & set(expected)
    shown: dict[str, Any] = {}
    for id_ in nodes:
        extra, listed = EXTRA_OUTPUTS.get(case.components[id_], ()), expected.get(id_, ())
        shown[id_] = {k: v for k, v in outputs[id_].items() if k not in extra and (v is not None or k in listed)}
    return shown


def _any_order(calls: Sequence[Any]) -> list[str]:
    """Calls of parallel nodes come in any order."""
    return sorted(json.dumps(call, sort_keys=True, ensure_ascii=False) for call in calls)


_COMPARED: dict[str, Callable[[Any], Any]] = {
    "llm_calls": _any_order,
    "http_calls": _any_order,
    "tool_calls": _any_order,
    "searches": _any_order,
}
