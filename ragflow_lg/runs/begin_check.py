"""The check of a request against Begin's form, before anything of its turn runs."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, cast

from ragflow_lg.base.errors import AnswerError
from ragflow_lg.component.plan import Plan
from ragflow_lg.component.state import TurnRequest
from ragflow_lg.dsl.forms import begin_answer, form_problems

MAX_NAMED = 50
"""Maximum number of unknown fields in an error message."""
_MAX_CHARS = 64
"""Longest name for which similar names are suggested."""

logger = logging.getLogger(__name__)


def check_begin(plan: Plan, request: TurnRequest, *, refuses_unknown: bool = True) -> None:
    """Check the fields of a request for a new turn. A webhook's request has none.

    RAGFlow checks nothing, and the option ``unchecked_forms`` brings that back. A field that neither Begin declares nor
    a node reads is refused, or else only logged, as RAGFlow's clients may send any.

    Raises:
        AnswerError: if a field is unknown, missing or invalid.
    """
    if request.get("payload"):
        return
    declared = _declared(plan)
    inputs = request.get("inputs") or {}
    unknown = {name: _describe(name, declared) for name in unknown_inputs(plan, inputs)[:MAX_NAMED]}
    if unknown and not refuses_unknown:
        logger.warning("inputs that the canvas does not read: %s", " ".join(unknown.values()))
    elif unknown:
        raise AnswerError(unknown, node=plan.entry)
    if plan.compatibility.unchecked_forms:
        return
    if problems := form_problems(declared, begin_answer(declared, inputs, request.get("query"))):
        raise AnswerError(problems, node=plan.entry)


def unknown_inputs(plan: Plan, inputs: Mapping[str, Any]) -> list[str]:
    """Return the names of the inputs that Begin does not declare, and no node reads."""
    declared = _declared(plan)
    others = [name for name in inputs if name not in declared]
    read = set(_read_names(plan)) if others else set[str]()
    return [name for name in others if name not in read]


def _declared(plan: Plan) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", getattr(plan.nodes[plan.entry].params, "inputs", None) or {})


def _read_names(plan: Plan) -> Iterator[str]:
    for node in plan.nodes.values():
        for part in node.with_tools():
            for reference, _ in part.references:
                if reference.kind == "output" and reference.node == plan.entry:
                    yield reference.key


def _describe(name: str, declared: Mapping[str, Any]) -> str:
    shown = f"`{name[:_MAX_CHARS]}` is not a field of Begin's form"
    near = get_close_matches(name, list(declared), n=1) if len(name) <= _MAX_CHARS else []
    if near:
        return f"{shown}; did you mean `{near[0]}`?"
    return f"{shown}, which has {', '.join(f'`{each}`' for each in declared) or 'no fields'}."
