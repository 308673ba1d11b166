"""Canvases that are sent along: checked, or drawn."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.base.errors import CompileError
from ragflow_lg.dsl_compiler import check_canvas, sketch_canvas
from ragflow_lg.server.assembly.canvas_files import CanvasFiles
from ragflow_lg.server.assembly.library import catalog
from ragflow_lg.server.drawing import to_mermaid, to_png, to_svg, to_text_drawing
from ragflow_lg.server.http.native.native_responses import CheckAnswer, DiagnosticAnswer, respond_model
from ragflow_lg.server.http.native.native_routing import Authenticated, make_native_router
from ragflow_lg.server.http.native.problem_details import describe_problems
from ragflow_lg.server.http.shared.auth import get_app_state

if TYPE_CHECKING:
    from ragflow_lg.component.plan import Plan

__all__ = ["router"]

router = make_native_router("canvases")

_DRAWING = {
    "svg": (to_svg, "image/svg+xml"),
    "png": (to_png, "image/png"),
    "mermaid": (to_mermaid, "text/vnd.mermaid; charset=utf-8"),
    "text": (to_text_drawing, "text/plain; charset=utf-8"),
}
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "A canvas as RAGFlow exports it.",
        "content": {"application/json": {"schema": {"type": "object"}, "example": {"components": {}}}},
    }
}
Format = Literal["svg", "png", "mermaid", "text"]

_at_work = asyncio.Semaphore(2)
"""Canvases that are worked on at the same time; others wait, so that runs go on."""


@router.post("/check", response_model=CheckAnswer, responses=describe_problems(), openapi_extra=_BODY, summary="Check")
async def check(request: Request, caller: Authenticated) -> Response:
    """Say everything that is wrong with a canvas, with line and column in the text as it was sent; also of no JSON."""
    document, settings = await request.body(), get_app_state(request).settings
    async with _at_work:
        plan, found = await asyncio.to_thread(check_canvas, document, catalog(), CanvasFiles(lambda: settings))
    shown = [DiagnosticAnswer(**diagnostic.as_dict()) for diagnostic in found]
    return respond_model(CheckAnswer(runs=plan is not None, diagnostics=shown))


@router.post(
    "/draw",
    response_class=Response,
    responses={
        200: {
            "description": "The drawing.",
            "content": {kind.partition(";")[0]: {"schema": {"type": "string"}} for _, kind in _DRAWING.values()},
        }
    }
    | describe_problems(422),
    openapi_extra=_BODY,
    summary="Draw",
)
async def draw(
    request: Request, caller: Authenticated, format: Annotated[Format, Query(description="Kind of picture.")] = "svg"
) -> Response:
    """Draw a canvas: real titles, dashed edges where the way depends on the run, boxes round loops."""
    document, settings = await request.body(), get_app_state(request).settings
    make, kind = _DRAWING[format]

    def drawn() -> str | bytes:
        plan, found = sketch_canvas(document, catalog(), CanvasFiles(lambda: settings, asks_servers=False))
        if plan is None:
            raise CompileError(found)
        return _drawing(make, plan)

    async with _at_work:
        picture = await asyncio.to_thread(drawn)
    return Response(picture, media_type=kind)


def _drawing(make: Any, plan: Plan) -> bytes:
    picture: str | bytes = make(plan)
    return picture if isinstance(picture, bytes) else picture.encode("utf-8", "replace")
