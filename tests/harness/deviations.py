"""Where our engine differs from the recordings on purpose: one row of ``docs/fidelity.md`` each.

A deviation names every field of `tests.harness.record` that differs, so that nothing else may.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Deviation:
    """What we do instead: the answers of all turns, or the code of the diagnostic that refuses the canvas."""

    row: str
    fields: frozenset[str] = frozenset()
    answers: Sequence[str] = ()
    refused: str = ""


def _differs(row: str, fields: str, *answers: str) -> Deviation:
    return Deviation(row, frozenset(fields.split()), answers)


_TEXT = "answer messages history outputs"
"""What differs where a text does."""

_MORE = f"{_TEXT} nodes"
"""What differs where a Message shows up that RAGFlow drops."""

_SUCCESS = f"{_MORE} globals error end"
"""What differs where an error is none."""

_LISTS = f"{_TEXT} nodes"
"""What differs where an Iteration gives other lists."""

_CITED = "answer thinking outputs llm_calls"
"""What differs where an answer is written again."""

_NEWS = "\nID: 15\n├── Title: daily.txt\n└── Content:\nHarvest was good."
_TWO = (
    "\nID: 331\n├── Title: guide.pdf\n└── Content:\nfirst text\n"
    "\nID: 331\n├── Title: other.pdf\n└── Content:\nsecond text"
)

DEVIATIONS: dict[str, Deviation] = {
    "agent-tool-cancel": _differs("cancel-ends-cleanly", "nodes history globals outputs error", "Looking."),
    "agent-tool-error-default": _differs("stream-failures", "outputs history", "Looking. Please try later."),
    "agent-tool-history": _differs(
        "question-without-tools", "llm_calls", "A country.", "Vientiane.", "About a million."
    ),
    "agent-tool-max-rounds-insists": _differs("last-round-without-tools", "llm_calls", "[]"),
    "agent-tool-model-error-midway": _differs("stream-failures", _SUCCESS, "Looking. "),
    "agent-tool-model-error-retry": _differs(
        "retry-the-call", f"{_SUCCESS} thinking llm_calls tool_calls trace", "Looking. "
    ),
    "agent-tool-model-without-tools": _differs("tools-in-the-prompt", "llm_calls", "Plain answer."),
    "agent-tool-result-kinds": _differs("tool-results-as-json", "llm_calls", "<ok>"),
    "aggregator-first-truthy": _differs("aggregator-values", _TEXT, "0/false/[0]"),
    "assigner-nested-target": _differs("blanks", _TEXT, '{"k": "new q", "n": 2, "added": {"deep": "x"}}'),
    "assigner-unknown-operation": Deviation("compile-time-checks", refused="params-invalid"),
    "cancel-before-start": _differs("stale-cancel", _SUCCESS, "x", "x"),
    "cancel-between-nodes": _differs("cancel-ends-cleanly", "nodes end", ""),
    "conv-history-variable": _differs("history-text", "outputs", "T1", "T2"),
    "conv-stale-path": _differs("no-silent-drop", _MORE, "<A>", "<B>", "<A>"),
    "fan-uneven-guarded": _differs("started-in-vain", "nodes", "joined-S|L1-L2"),
    "fan-uneven-three-lengths": _differs("started-in-vain", "nodes", "p/q1q2/r1r2r3"),
    "fan-uneven-unguarded": _differs("join-once", "answer messages nodes", "got-S;"),
    "listops-mixed-sort": _differs("total-order", _SUCCESS, '[1, "a"]'),
    "llm-lazy-chain": _differs("unread-model", "nodes outputs llm_calls", "second"),
    "llm-raise-stream": _differs("stream-failures", "nodes outputs end", ""),
    "llm-stream-error": _differs("stream-failures", f"{_SUCCESS} pieces", "Apartial"),
    "llm-structured-unparsable": _differs("structured-checks", f"{_TEXT} llm_calls", '[{"a": "late"}]'),
    "llm-unrun-reference": _differs("no-silent-drop", f"{_MORE} llm_calls", "[no scripted reply]"),
    "load-dangling-downstream": Deviation("compile-time-checks", refused="target-unknown"),
    "load-missing-begin": _differs("entry-by-type", _SUCCESS, "x"),
    "message-alternatives-unrun": _differs("no-silent-drop", _MORE, "plain", "plain", "plain"),
    "message-jinja-bad": _differs("jinja-fallback", _SUCCESS, "a and {% if %}"),
    "message-jinja-loop-list": _differs("jinja-values", _TEXT, "<a><b>"),
    "message-jinja-model": _differs("jinja-model", "llm_calls", "4:four"),
    "message-unknown-component": _differs("unknown-component", "answer messages nodes outputs end", "value-"),
    "message-unrun-reference": _differs("no-silent-drop", _MORE, "A"),
    "ref-brace-tolerance": _differs("braces", _TEXT, "{-Q-}-[1] [1] [{nope}] [{a@}] [Qx]"),
    "ref-hyphen-id": _differs("hyphens", _TEXT, "got v"),
    "retrieval-agent-cite-live": _differs("citations-once", "llm_calls", "Rice needs water [ID:61]."),
    "retrieval-llm-own-guidelines": _differs("guidelines-apart", "llm_calls", "Water, please [ID:61]."),
    "retrieval-memory-unknown": _differs("no-memories", _SUCCESS, ""),
    "retrieval-nested-agent-cite": _differs("citations-when-missing", _CITED, "It needs water [ID:61]."),
    "retrieval-query-template": _differs("one-pass", "searches", _NEWS, _NEWS),
    "retrieval-reference-collision": _differs("references-first", "messages references", _TWO),
    "retrieval-tool-cite": _differs("citations-when-missing", _CITED, "Yes, it does [ID:61]."),
    "retrieval-tool-cite-text-first": _differs(
        "citations-when-missing", f"{_CITED} messages history", "Let me check. Yes, it does [ID:61]."
    ),
    "stream-repeated-first-piece": _differs("repeated-piece", f"{_TEXT} pieces", "haha!"),
    "switch-list-and-dict": _differs("switch-contains", _MORE, "no"),
    "switch-number-bad-value": _differs("switch-types", _SUCCESS, "else"),
    "switch-unknown-operator": Deviation("compile-time-checks", refused="params-invalid"),
    "think-split-tags": _differs("split-tags", f"{_TEXT} thinking pieces", "because"),
    "cancel-streaming-literal": _differs("cancel-goes-on", "outputs", "first:A"),
    "fillup-id-rule": _differs("fillup-by-type", f"{_MORE} globals end", "", "[1]"),
    "fillup-resume-without-inputs": _differs("fillup-query", _TEXT, "", "[just text]-just text"),
    "fillup-turn-after-finish": _differs("fillup-new-turn", f"{_MORE} globals end", "", "q1:Al", ""),
    "fillup-two-at-once": _differs("fillup-own-fields", "outputs", "", "L+R"),
    "iteration-empty": _differs("iteration-lists", _TEXT, "[[]]"),
    "iteration-nested": _differs("region-reentry", _LISTS, '["c1+c2", "c3+c4"]'),
    "iteration-not-a-list": _differs("region-errors", "nodes outputs end", ""),
    "iteration-not-a-list-comment": _differs("region-errors", _SUCCESS, "no list given[]"),
    "iteration-null-items": _differs("region-errors", "nodes outputs end", ""),
    "loop-body-goto": _differs("region-ends", "nodes outputs", "rescued at-1"),
    "loop-exit": _differs("region-ends", "nodes outputs", "left at-3,-round 2"),
    "loop-exit-first-round": _differs("region-ends", "nodes outputs", "n was 5"),
    "loop-incomplete-variable": _differs("region-errors", "nodes outputs end", ""),
    "loop-invalid-operator": _differs("loop-operators", _SUCCESS, "1"),
    "loop-iteration-inside-twice": _differs("region-reentry", _LISTS, '["a1", "b1"]'),
    "loop-nested-loop-max": _differs("region-reentry", f"{_LISTS} globals", "total=4"),
    "loop-no-condition-and": _differs("loop-no-condition", _LISTS, "n=3"),
    "loop-typed-init": _differs("loop-variables", _SUCCESS, "1"),
    "nested-iteration-two-lines": _differs("region-reentry", _LISTS, '["*a|*b", "*c"]'),
}
