"""Routes for canvases in the request body: check and draw."""

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

router = make_native_router("canvases")

_FORMATS = {
    "svg": (to_svg, "image/svg+xml"),
    "png": (to_png, "image/png"),
    "mermaid": (to_mermaid, "text/vnd.mermaid; charset=utf-8"),
    "text": (to_text_drawing, "text/plain; charset=utf-8"),
}
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "A canvas in RAGFlow's export format.",
        "content": {"application/json": {"schema": {"type": "object"}, "example": {"components": {}}}},
    }
}
Format = Literal["svg", "png", "mermaid", "text"]

_slots = asyncio.Semaphore(2)
"""Limits concurrent work on canvases, so that it does not delay runs."""


@router.post("/check", response_model=CheckAnswer, responses=describe_problems(), openapi_extra=_BODY, summary="Check")
async def check(request: Request, caller: Authenticated) -> Response:
    """Check a canvas and return all diagnostics, with line and column in the request body; also for invalid JSON."""
    document, settings = await request.body(), get_app_state(request).settings
    async with _slots:
        plan, diagnostics = await asyncio.to_thread(check_canvas, document, catalog(), CanvasFiles(lambda: settings))
    answers = [DiagnosticAnswer(**diagnostic.as_dict()) for diagnostic in diagnostics]
    return respond_model(CheckAnswer(runs=plan is not None, diagnostics=answers))


@router.post(
    "/draw",
    response_class=Response,
    responses={
        200: {
            "description": "The drawing.",
            "content": {kind.partition(";")[0]: {"schema": {"type": "string"}} for _, kind in _FORMATS.values()},
        }
    }
    | describe_problems(422),
    openapi_extra=_BODY,
    summary="Draw",
)
async def draw(
    request: Request,
    caller: Authenticated,
    format: Annotated[Format, Query(description="Format of the drawing.")] = "svg",
) -> Response:
    """Draw a canvas with titles, dashed edges for conditional paths, and boxes around loops."""
    document, settings = await request.body(), get_app_state(request).settings
    render, kind = _FORMATS[format]

    def draw_canvas() -> str | bytes:
        plan, diagnostics = sketch_canvas(document, catalog(), CanvasFiles(lambda: settings, asks_servers=False))
        if plan is None:
            raise CompileError(diagnostics)
        return _render(render, plan)

    async with _slots:
        picture = await asyncio.to_thread(draw_canvas)
    return Response(picture, media_type=kind)


def _render(render: Any, plan: Plan) -> bytes:
    picture: str | bytes = render(plan)
    return picture if isinstance(picture, bytes) else picture.encode("utf-8", "replace")
