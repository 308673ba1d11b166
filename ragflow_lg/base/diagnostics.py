"""Diagnostics about a canvas, and the table of their stable codes.

The code of a diagnostic never changes; ``docs/diagnostics.md`` explains each code.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

Severity = Literal["error", "warning", "info"]
"""An ``error`` rejects the canvas, a ``warning`` does not prevent a run, an ``info`` reports a rewrite."""

CODES: dict[str, str] = {
    # The document
    "json-invalid": "The file is not JSON.",
    "json-duplicate-key": "An object contains the same key twice; the last value counts.",
    "document-too-large": "The document is larger or deeper than the compiler accepts.",
    "document-shape": "A value has the wrong type for its position in a DSL v1 document.",
    "document-empty": "The document contains no components.",
    "document-rewritten": "An older or simplified form was converted to the current one.",
    "pipeline-document": "The document is an ingestion pipeline, not an agent canvas.",
    "legacy-component": "The component was removed in RAGFlow 0.20.",
    # Components and their parameters
    "component-unknown": "No component has this name.",
    "tool-unknown": "No tool has this name; the agent runs without it.",
    "tool-forbidden": "A rule does not allow the agent to call this tool.",
    "mcp-server-unknown": "The settings define no MCP server with this id.",
    "model-unavailable": "The settings lack the provider of a model, its address or its key.",
    "dataset-unknown": "A dataset does not exist.",
    "memory-unknown": "The settings declare no memory with this id.",
    "reranker-unavailable": "The settings lack a rerank model or its key.",
    "key-missing": "A tool has no API key.",
    "account-missing": "A component lacks the account or server that it needs.",
    "sql-reference-text": "References become a part of an SQL statement.",
    "code-outputs": "No value of a program fits the outputs that CodeExec declares.",
    "canvas-unknown": "The canvas to run cannot be found.",
    "canvas-unfit": "The canvas cannot run inside another one.",
    "component-dropped": "A part of the document has no meaning here and was ignored.",
    "global-undeclared": "A global has a value but its variable is not declared; the value is dropped.",
    "params-invalid": "A parameter has a value that the component does not accept.",
    "params-unknown": "An unknown parameter was ignored.",
    "params-unsupported": "A known parameter has no effect in this version.",
    "id-invalid": "The id cannot be used.",
    "title-duplicate": "Two nodes have the same title.",
    # The flow
    "begin-missing": "The canvas has no Begin component.",
    "begin-multiple": "The canvas has more than one Begin component.",
    "target-unknown": "An edge points to a component that does not exist.",
    "route-empty": "A route has no existing target.",
    "node-unreachable": "The node cannot be reached from Begin.",
    "flow-cycle": "Nodes form a cycle outside a Loop.",
    "region-invalid": "A Loop or Iteration does not match its body.",
    "region-parallel": "A node in the body prevents rounds from running in parallel.",
    # References
    "reference-unknown-node": "A reference names a component that does not exist.",
    "reference-unknown-output": "A reference names an output that the component does not have.",
    "reference-unknown-global": "A reference names a sys.* or env.* variable that is not declared.",
    "reference-not-upstream": "A reference reads a node that does not run before it.",
    "reference-excluded": "A reference reads a node in a branch that excludes the reader.",
    "reference-unknown-entry": "A reference names an entry that a value cannot have.",
    "value-type": "A value has a type that the component cannot use.",
    "reference-may-be-unset": "A reference reads a node that does not run on some path.",
    "write-race": "Two nodes that may run at the same time change the same variable.",
    "rounds-in-turn": "The rounds of an Iteration wait for each other.",
    "loop-without-exit": "Nothing changes what a Loop tests.",
    "effect-repeated": "A node with an effect outside the run may run several times.",
    "failure-unhandled": "The turn fails if a service does not answer.",
    "many-calls": "A turn may call models very often.",
    "prompt-too-long": "A prompt cannot fit into the model's window.",
    "param-not-sent": "A model does not get a parameter as the canvas says.",
    "template-invalid": "A Jinja template has a syntax error.",
    "eject-unsupported": "`ragflow-lg canvas eject` cannot write the node as code.",
    # Differences from RAGFlow
    "compat-invalid": "The canvas asks for a behaviour of RAGFlow that does not exist.",
    "differs-fillup-checked": "A form accepts only valid values; in RAGFlow it accepts any values.",
    "differs-jinja-values": "A template uses a value as text that may not be text; in RAGFlow all values are text.",
    "differs-loop-no-condition": "A Loop without conditions runs; in RAGFlow it ends at once.",
    "differs-retry-after-text": "A model that has shown text may be called again; RAGFlow repeats the text.",
    "differs-structured-checks": "An answer that does not match its schema fails the node; RAGFlow accepts it.",
    "differs-unread-model": "A model whose answer nobody reads is called; in RAGFlow it is not.",
}
"""The meaning of every code, in one sentence."""

_EXPORT = "Export the canvas again from the editor."
_CHOOSE = "Choose the value again in the editor."
_CONNECT = "Connect it, or remove it."
_COMPAT = "docs/fidelity.md names the option that brings RAGFlow's way back."
_NOTHING = "No action needed; save the canvas in a current editor to remove this note."

ADVICE: dict[str, str] = {
    "json-invalid": _EXPORT,
    "json-duplicate-key": "Remove all but the intended entry.",
    "document-too-large": "Provide only the canvas, without run data.",
    "document-shape": _EXPORT,
    "document-empty": "Provide a file that contains a canvas.",
    "document-rewritten": _NOTHING,
    "pipeline-document": "Run it in RAGFlow, or provide an agent canvas.",
    "legacy-component": "Replace the component.",
    "component-unknown": "Correct the name; `ragflow-lg components` lists the available ones.",
    "tool-unknown": "Remove it, or use the name of an existing tool.",
    "mcp-server-unknown": "Add the server to the settings, or correct its id.",
    "model-unavailable": "Add the provider to the settings, or choose another model.",
    "dataset-unknown": "Create the dataset, or choose another one.",
    "memory-unknown": "Add the memory to the settings, or correct its id.",
    "reranker-unavailable": "Add the model to the settings, or remove rerank_id.",
    "key-missing": "Add the key to the settings.",
    "account-missing": "Add it to the canvas or to the settings.",
    "sql-reference-text": "Set bind_references to true.",
    "code-outputs": "Declare exactly one output of your own, with a type that exists.",
    "canvas-unknown": "Use the name of a canvas in the settings or in the folder.",
    "canvas-unfit": "Fix that canvas, or choose another one.",
    "tool-forbidden": "Remove it, or change the settings.",
    "component-dropped": "Remove it, or rename it to env.… to keep it.",
    "global-undeclared": "Declare it under variables.",
    "params-invalid": "Correct the value; `ragflow-lg components NAME` shows what is accepted.",
    "params-unknown": "Correct the name, or remove it.",
    "params-unsupported": "No action needed if the canvas works without it; otherwise remove it.",
    "id-invalid": "Use another id.",
    "title-duplicate": "Rename one of them in the editor.",
    "begin-missing": "Add a Begin component.",
    "begin-multiple": "Keep one Begin component.",
    "target-unknown": "Draw the edge to an existing node, or remove it.",
    "route-empty": "Connect it to a node.",
    "node-unreachable": _CONNECT,
    "flow-cycle": "Use a Loop.",
    "region-invalid": "Move the nodes into the Loop or Iteration in the editor.",
    "region-parallel": "Set max_concurrency to 0, or move the node out of the body.",
    "reference-unknown-node": _CHOOSE,
    "reference-unknown-output": _CHOOSE,
    "reference-unknown-global": "Declare the variable in the canvas, or correct the name.",
    "reference-not-upstream": "Connect that node to the reader, directly or through others.",
    "reference-excluded": "Read a node in this branch, or join the branches first.",
    "reference-unknown-entry": _CHOOSE,
    "value-type": "Use a value of another type.",
    "reference-may-be-unset": "Connect that path to another node, or use a VariableAggregator.",
    "write-race": "Connect one to the other.",
    "rounds-in-turn": "Set max_concurrency.",
    "loop-without-exit": "Change the value in the body, or use ExitLoop.",
    "effect-repeated": "No action needed if this is intended; otherwise move the node out of the body.",
    "failure-unhandled": "Set exception_method.",
    "many-calls": "Reduce the number of rounds.",
    "prompt-too-long": "Shorten it, or choose another model.",
    "param-not-sent": "No action needed if the answers are as wanted; otherwise choose another model.",
    "template-invalid": "Fix the template.",
    "eject-unsupported": "Change the node, or run the canvas with load_canvas.",
    "compat-invalid": "Correct the name, or remove it.",
    "differs-fillup-checked": _COMPAT,
    "differs-jinja-values": _COMPAT,
    "differs-loop-no-condition": _COMPAT,
    "differs-retry-after-text": _COMPAT,
    "differs-structured-checks": _COMPAT,
    "differs-unread-model": _COMPAT,
}
"""The default hint for each code, used if a finding does not have a hint."""


class Finding(NamedTuple):
    """A component's finding about its own parameters, not yet located in the document.

    ``path`` is the path to the value within the component's params, for example ``("variables", 0, "ref")``.
    """

    code: str
    severity: Severity
    path: tuple[str | int, ...]
    message: str
    hint: str = ""


class Fix(NamedTuple):
    """A change at a diagnostic's pointer that does not change what a run does."""

    title: str
    action: Literal["remove", "remove_items", "replace"]
    """``remove`` the entry, ``remove_items`` that equal ``value`` from the list, or ``replace`` it by ``value``."""
    value: Any = None


class Diagnostic(NamedTuple):
    """A problem in a canvas, or a note about it.

    ``pointer`` is an RFC 6901 JSON pointer into the document as written; ``line`` and ``column`` count
    from 1 and are 0 if the source text is unknown. ``node`` and ``title`` name the component, if any.
    """

    code: str
    severity: Severity
    pointer: str
    message: str
    hint: str = ""
    node: str = ""
    title: str = ""
    line: int = 0
    column: int = 0
    fix: Fix | None = None
    """What ``check --fix`` does, if there is a safe fix."""

    def as_dict(self) -> dict[str, Any]:
        """Return the diagnostic as JSON, without its fix."""
        return {name: value for name, value in self._asdict().items() if name != "fix"}

    def __str__(self) -> str:
        position = f"{self.line}:{self.column}: " if self.line else ""
        subject = f" [{self.title or self.node}]" if self.title or self.node else ""
        hint = f" {self.hint}" if self.hint else ""
        return f"{position}{self.severity} {self.code}{subject}: {self.message}{hint}"
