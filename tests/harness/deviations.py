"""Deliberate differences from the recordings, each with a row of ``docs/fidelity.md``.

A deviation names the fields of `tests.harness.record` that differ. All others have to be equal.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Deviation:
    """Our result: the answers of all turns, or the code of the diagnostic that refuses the canvas."""

    row: str
    fields: frozenset[str] = frozenset()
    answers: Sequence[str] = ()
    refused: str = ""


def _deviation(row: str, fields: str, *answers: str) -> Deviation:
    return Deviation(row, frozenset(fields.split()), answers)


_TEXT = "answer messages history outputs"
"""Fields that differ if a text differs."""

_MORE = f"{_TEXT} nodes"
"""Fields that differ if there is a Message that RAGFlow drops."""

_SUCCESS = f"{_MORE} globals error end"
"""Fields that differ if there is no error."""

_LISTS = f"{_TEXT} nodes"
"""Fields that differ if the output lists of an Iteration differ."""

_CITED = "answer thinking outputs llm_calls"
"""Fields that differ if an answer is rewritten."""

_NEWS = "\nID: 15\n├── Title: daily.txt\n└── Content:\nHarvest was good."
_TWO = (
    "\nID: 331\n├── Title: guide.pdf\n└── Content:\nfirst text\n"
    "\nID: 331\n├── Title: other.pdf\n└── Content:\nsecond text"
)

DEVIATIONS: dict[str, Deviation] = {
    "shared-categorize-list": _deviation("category-values", f"{_SUCCESS} inputs llm_calls", "N"),
    "agent-tool-cancel": _deviation("cancel-ends-cleanly", "nodes history globals outputs error", "Looking."),
    "agent-tool-history": _deviation(
        "question-without-tools", "llm_calls", "A country.", "Vientiane.", "About a million."
    ),
    "agent-tool-empty-reply-quiet": _deviation("empty-reply", f"{_TEXT} llm_calls inputs", "<not asked for>"),
    "categorize-fallback-target": _deviation("empty-reply", "llm_calls", "n1;n2"),
    "agent-tool-max-rounds-insists": _deviation("last-round-without-tools", f"{_SUCCESS} llm_calls", "["),
    "agent-tool-model-error-midway": _deviation("stream-failures", _SUCCESS, "Looking. "),
    "agent-tool-model-error-retry": _deviation("retry-the-call", "llm_calls trace", "Looking. Vientiane."),
    "agent-tool-model-without-tools": _deviation("tools-in-the-prompt", "llm_calls", "Plain answer."),
    "agent-tool-odd-arguments": _deviation("tool-arguments", "llm_calls tool_calls trace", "<ok>"),
    "agent-tool-result-kinds": _deviation("tool-results-as-json", "llm_calls", "<ok>"),
    "aggregator-first-truthy": _deviation("aggregator-values", _TEXT, "0/false/[0]"),
    "assigner-nested-target": _deviation("blanks", _TEXT, '{"k": "new q", "n": 2, "added": {"deep": "x"}}'),
    "assigner-unknown-operation": Deviation("compile-time-checks", refused="params-invalid"),
    "begin-query-two-fields": _deviation("fillup-checked", f"{_MORE} globals error end inputs", "", "[1] [2]"),
    "cancel-before-start": _deviation("stale-cancel", _SUCCESS, "x", "x"),
    "cancel-between-nodes": _deviation("cancel-ends-cleanly", "nodes end", ""),
    "code-agent-tool-mismatch": _deviation("code-outputs", "llm_calls trace", "<Five.>"),
    "conv-history-variable": _deviation("history-text", "outputs", "T1", "T2"),
    "conv-stale-path": _deviation("no-silent-drop", _MORE, "<A>", "<B>", "<A>"),
    "fan-uneven-guarded": _deviation("started-in-vain", "nodes", "joined-S|L1-L2"),
    "fan-uneven-three-lengths": _deviation("started-in-vain", "nodes", "p/q1q2/r1r2r3"),
    "fan-uneven-unguarded": _deviation("join-once", "answer messages nodes", "got-S;"),
    "listops-mixed-sort": _deviation("total-order", _SUCCESS, '[1, "a"]'),
    "llm-lazy-chain": _deviation("unread-model", "nodes outputs llm_calls", "second"),
    "llm-raise-stream": _deviation("stream-failures", "nodes outputs end", ""),
    "llm-stream-error": _deviation("stream-failures", f"{_SUCCESS} pieces", "Apartial"),
    "llm-structured-unparsable": _deviation("structured-checks", f"{_TEXT} llm_calls", '[{"a": "late"}]'),
    "llm-unrun-reference": _deviation("no-silent-drop", f"{_MORE} llm_calls", "[no scripted reply]"),
    "load-dangling-downstream": Deviation("compile-time-checks", refused="target-unknown"),
    "load-missing-begin": _deviation("entry-by-type", _SUCCESS, "x"),
    "message-alternatives-unrun": _deviation("no-silent-drop", _MORE, "plain", "plain", "plain"),
    "message-jinja-bad": _deviation("jinja-fallback", _SUCCESS, "a and {% if %}"),
    "message-jinja-loop-list": _deviation("jinja-values", _TEXT, "<a><b>"),
    "message-jinja-model": _deviation("jinja-model", "llm_calls", "4:four"),
    "message-unknown-component": _deviation("unknown-component", "answer messages nodes outputs end", "value-"),
    "message-unrun-reference": _deviation("no-silent-drop", _MORE, "A"),
    "ref-brace-tolerance": _deviation("braces", _TEXT, "{-Q-}-[1] [1] [{nope}] [{a@}] [Qx]"),
    "ref-hyphen-id": _deviation("hyphens", _TEXT, "got v"),
    "retrieval-agent-cite-live": _deviation("citations-once", "llm_calls", "Rice needs water [ID:61]."),
    "retrieval-llm-own-guidelines": _deviation("guidelines-apart", "llm_calls", "Water, please [ID:61]."),
    "retrieval-nested-agent-cite": _deviation("citations-when-missing", _CITED, "It needs water [ID:61]."),
    "retrieval-query-template": _deviation("one-pass", "searches", _NEWS, _NEWS),
    "retrieval-reference-collision": _deviation("references-first", "messages references", _TWO),
    "retrieval-tool-cite": _deviation("citations-when-missing", _CITED, "Yes, it does [ID:61]."),
    "retrieval-tool-error": _deviation("missing-datasets", "llm_calls trace", "I could not search."),
    "retrieval-tool-cite-text-first": _deviation(
        "citations-when-missing", f"{_CITED} messages history", "Let me check. Yes, it does [ID:61]."
    ),
    "stream-repeated-first-piece": _deviation("repeated-piece", f"{_TEXT} pieces", "haha!"),
    "switch-list-and-dict": _deviation("switch-contains", _MORE, "no"),
    "switch-number-bad-value": _deviation("switch-types", _SUCCESS, "else"),
    "switch-unknown-operator": Deviation("compile-time-checks", refused="params-invalid"),
    "switch-none-text-operators": _deviation("fillup-checked", f"{_MORE} globals error end", ""),
    "think-split-tags": _deviation("split-tags", f"{_TEXT} thinking pieces", "because"),
    "cancel-streaming-literal": _deviation("cancel-goes-on", "outputs", "first:A"),
    "fillup-id-rule": _deviation("fillup-by-type", f"{_MORE} globals end", "", "[1]"),
    "fillup-resume-without-inputs": _deviation("fillup-query", _TEXT, "", "[just text]-just text"),
    "fillup-tips-off": _deviation("fillup-checked", "inputs outputs", "", "5"),
    "fillup-turn-after-finish": _deviation("fillup-new-turn", f"{_MORE} globals end", "", "q1:Al", ""),
    "fillup-two-at-once": _deviation("fillup-own-fields", "outputs", "", "L+R"),
    "iteration-categorize-inside": _deviation("iteration-items", f"{_TEXT} inputs", '["F:plum", "T:saw"]'),
    "iteration-empty": _deviation("iteration-lists", _TEXT, "[[]]"),
    "iteration-nested": _deviation("region-reentry", _LISTS, '["c1+c2", "c3+c4"]'),
    "iteration-not-a-list": _deviation("region-errors", "nodes outputs end", ""),
    "iteration-not-a-list-comment": _deviation("region-errors", _SUCCESS, "no list given[]"),
    "iteration-null-items": _deviation("region-errors", "nodes outputs end", ""),
    "loop-body-goto": _deviation("region-ends", "nodes outputs", "rescued at-1"),
    "loop-exit": _deviation("region-ends", "nodes outputs", "left at-3,-round 2"),
    "loop-exit-first-round": _deviation("region-ends", "nodes outputs", "n was 5"),
    "loop-incomplete-variable": _deviation("region-errors", "nodes outputs end", ""),
    "loop-invalid-operator": _deviation("loop-operators", _SUCCESS, "1"),
    "loop-iteration-inside-twice": _deviation("region-reentry", _LISTS, '["a1", "b1"]'),
    "loop-nested-loop-max": _deviation("region-reentry", f"{_LISTS} globals", "total=4"),
    "loop-no-condition-and": _deviation("loop-no-condition", _LISTS, "n=3"),
    "loop-typed-init": _deviation("loop-variables", _SUCCESS, "1"),
    "own-tips-of-last-form": _deviation("fillup-own-fields", "outputs", "", "a-b+apple"),
    "own-parallel-rounds-shown": _deviation(
        "parallel-rounds",
        "nodes",
        'a:[for a it is long text];b:[for b it is];c:[else];["for a it is long text", "for b it is", "else"]',
    ),
    "shared-think-end-only": _deviation("think-unopened", _TEXT, "[(\nAnswer)]"),
    "shared-prompt-empty": _deviation("empty-prompt", f"{_SUCCESS} outputs", ""),
    "shared-assign-append-empty-text": _deviation("assigner-errors", f"{_TEXT} inputs globals", "[]"),
    "shared-assign-set-object": _deviation("assigner-set", f"{_SUCCESS} inputs", '[["a"]]'),
    "shared-assign-set-template": _deviation("assigner-set", f"{_TEXT} inputs globals", "[str]"),
    "shared-join-entries": _deviation("list-text", f"{_TEXT} inputs", "[,true,a]"),
    "shared-list-filter-template": _deviation("filter-references", f"{_TEXT} inputs", '["hi"]'),
    "shared-split-empty-delimiter": _deviation("split-empty-delimiter", f"{_TEXT} inputs", '["ab", "c"]'),
    "shared-invoke-boolean-query": _deviation("invoke-values", "http_calls", "[ok]"),
    "shared-invoke-charset": _deviation("invoke-charset", f"{_TEXT} inputs", "[äöü]"),
    "nested-iteration-two-lines": _deviation("region-reentry", _LISTS, '["*a|*b", "*c"]'),
}
