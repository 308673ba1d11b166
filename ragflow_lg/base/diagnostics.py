"""What the compiler has to say about a canvas: diagnostics and the table of their stable codes.

A diagnostic never changes its code; ``docs/diagnostics.md`` explains each one.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

__all__ = ["ADVICE", "CODES", "Diagnostic", "Finding", "Severity"]

Severity = Literal["error", "warning", "info"]
"""``error`` refuses the canvas, ``warning`` runs it as described, ``info`` tells of a rewrite."""

CODES: dict[str, str] = {
    # The document
    "json-invalid": "The file is not JSON.",
    "json-duplicate-key": "An object names the same key twice; the last value counts.",
    "document-too-large": "The document is larger or deeper than the compiler accepts.",
    "document-shape": "A value has the wrong type for its place in a DSL v1 document.",
    "document-empty": "The document holds no component.",
    "document-rewritten": "An older or simplified shape was read as today's form.",
    "pipeline-document": "The document is an ingestion pipeline, not an agent canvas.",
    "legacy-component": "The component was removed in RAGFlow 0.20.",
    # Components and their parameters
    "component-unknown": "No component of this name exists.",
    "component-not-yet": "The component is known, but this version cannot run it yet.",
    "tool-unknown": "No tool of this name exists; the agent runs without it.",
    "tool-forbidden": "A rule does not let the agent call this tool.",
    "mcp-server-unknown": "The settings have no MCP server of this id.",
    "canvas-unknown": "The canvas that is to be played cannot be found.",
    "canvas-unfit": "The canvas cannot be played within another one.",
    "component-dropped": "A part of the document has no meaning here and was left out.",
    "global-undeclared": "A global has a value, but there is no variable of its name; the value is dropped.",
    "params-invalid": "A parameter has a value that the component does not accept.",
    "params-unknown": "A parameter is not known and was ignored.",
    "params-unsupported": "A parameter is known, but has no effect in this version.",
    "id-invalid": "The id cannot be used.",
    "title-duplicate": "Two nodes bear the same title.",
    # The flow
    "begin-missing": "The canvas has no Begin component.",
    "begin-multiple": "The canvas has more than one Begin component.",
    "target-unknown": "An edge leads to a component that does not exist.",
    "route-empty": "A route has no target that exists.",
    "node-unreachable": "No path leads from Begin to the node.",
    "flow-cycle": "Nodes form a cycle outside of a Loop.",
    "region-invalid": "A Loop or Iteration and its body do not fit together.",
    "region-parallel": "Rounds cannot run side by side, because of a node in the body.",
    # References
    "reference-unknown-node": "A reference names a component that does not exist.",
    "reference-unknown-output": "A reference names an output that the component does not have.",
    "reference-unknown-global": "A reference names a sys.* or env.* variable that is not declared.",
    "reference-not-upstream": "A reference reads a node that does not run before the reader.",
    "reference-excluded": "A reference reads a node of a branch that excludes the reader.",
    "template-invalid": "A Jinja template has a syntax error.",
}
"""Every code and, in one sentence, what it stands for."""

_EXPORT = "Export the canvas again from the editor."
_CHOOSE = "Choose the value again in the editor."
_CONNECT = "Connect it, or remove it."
_NOTHING = "Nothing needs to be done; save the canvas from a current editor to be rid of the note."

ADVICE: dict[str, str] = {
    "json-invalid": _EXPORT,
    "json-duplicate-key": "Remove all but the entry that is meant.",
    "document-too-large": "Give the canvas alone, without the data of a run.",
    "document-shape": _EXPORT,
    "document-empty": "Give a file that holds a canvas.",
    "document-rewritten": _NOTHING,
    "pipeline-document": "Run it in RAGFlow, or give an agent canvas.",
    "legacy-component": "Replace it.",
    "component-unknown": "Correct the name; `ragflow-lg components` lists those there are.",
    "component-not-yet": "Take it out; `ragflow-lg components` lists what can run.",
    "tool-unknown": "Take it out, or name one that there is.",
    "mcp-server-unknown": "Add the server to the settings, or correct its id.",
    "canvas-unknown": "Name one that the settings or the folder have.",
    "canvas-unfit": "Mend the canvas that is named, or name another one.",
    "tool-forbidden": "Take it out, or have the settings changed.",
    "component-dropped": "Remove it; a variable is named env.… to be kept.",
    "global-undeclared": "Declare it under variables.",
    "params-invalid": "Correct the value; `ragflow-lg components NAME` shows what is accepted.",
    "params-unknown": "Correct the name, or remove it.",
    "params-unsupported": "Nothing needs to be done if the canvas is fine without it; else remove it.",
    "id-invalid": "Give it another id.",
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
    "reference-unknown-global": "Declare it among the canvas's variables, or correct the name.",
    "reference-not-upstream": "Draw an edge from it, directly or through others.",
    "reference-excluded": "Read a node of this branch, or join the branches first.",
    "template-invalid": "Mend the template.",
}
"""What to do, by code, where a finding says nothing better."""


class Finding(NamedTuple):
    """A remark of a component about its own parameters, without a place in the document yet.

    ``path`` leads from the component's params to the value, for example ``("variables", 0, "ref")``.
    """

    code: str
    severity: Severity
    path: tuple[str | int, ...]
    message: str
    hint: str = ""


class Diagnostic(NamedTuple):
    """One thing wrong with, or worth knowing about, a canvas.

    ``pointer`` is an RFC 6901 JSON pointer into the document as written; ``line`` and ``column`` count
    from 1 and are 0 when the source text is not known. ``node`` and ``title`` name the component, if any.
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

    def as_dict(self) -> dict[str, Any]:
        """Give the diagnostic as JSON, for ``check --output json``."""
        return self._asdict()

    def __str__(self) -> str:
        place = f"{self.line}:{self.column}: " if self.line else ""
        who = f" [{self.title or self.node}]" if self.title or self.node else ""
        hint = f" {self.hint}" if self.hint else ""
        return f"{place}{self.severity} {self.code}{who}: {self.message}{hint}"
