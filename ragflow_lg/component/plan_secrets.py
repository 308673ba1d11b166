"""The secrets of a canvas, for views of its values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ragflow_lg.dsl.redacted_view import RedactedView
from ragflow_lg.dsl.redaction import Redactor

if TYPE_CHECKING:
    from ragflow_lg.component.plan import Plan


def make_redacted_view(plan: Plan, secrets: Iterable[str]) -> RedactedView:
    """Return a view without the given secrets, and without those of a canvas and its nested canvases."""
    redactor = Redactor(secrets)
    for each in plan.with_canvases():
        nodes = [node for node in each.nodes.values() if node.tools or node.spec.tool]
        redactor.learn_from([part.params for node in nodes for part in node.with_tools()])
        redactor.learn_from(dict(each.globals))
    return RedactedView(redactor)
