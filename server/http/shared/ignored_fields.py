"""Fields of a request that nothing reads. RAGFlow's clients may send any, so they are named but not refused."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ragflow_lg.base.lenient_values import as_map
from ragflow_lg.runs.begin_check import unknown_inputs

if TYPE_CHECKING:
    from starlette.responses import Response

    from ragflow_lg.component.plan import Plan

HEADER = "X-Ignored-Fields"
MAX_NAMED = 20
"""Maximum number of fields that are named."""
_MAX_CHARS = 64

logger = logging.getLogger(__name__)


def unread_inputs(plan: Plan, inputs: Any) -> list[str]:
    """Return the names of the inputs that neither Begin nor any form of a canvas has, and no node reads, as paths."""
    forms = [node.params for node in plan.nodes.values() if node.spec.kind == "interrupt"]
    known = {name for form in forms for name in getattr(form, "inputs", {})}
    return [f"inputs.{name}" for name in unknown_inputs(plan, as_map(inputs)) if name not in known]


def name_ignored(response: Response, names: Iterable[str]) -> Response:
    """Name the fields that were ignored in a header of the response and in the log. Return the response."""
    shown = [quote(name[:_MAX_CHARS], safe=" ") for name in islice(names, MAX_NAMED)]
    if shown:
        response.headers[HEADER] = ", ".join(shown)
        logger.warning("the request has fields that nothing reads: %s", ", ".join(shown))
    return response
