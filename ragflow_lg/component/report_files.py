"""Files that a component writes for the user from Markdown."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.thinking import split_thoughts
from ragflow_lg.component.decorator import RunContext
from ragflow_lg.services.artifacts import Artifact
from ragflow_lg.services.http import HttpRequest
from ragflow_lg.services.reports import MEDIA_TYPES, ReportFormat, ReportRequest, Reports

EXTENSIONS: Mapping[ReportFormat, str] = {**{format_: format_ for format_ in MEDIA_TYPES}, "markdown": "md"}
"""The extensions of files by their formats."""

MAX_IMAGE_BYTES = 10 * 1024 * 1024

_BLANK_LINES = re.compile(r"\n{3,}")


class ReportFile(Struct, frozen=True):
    """A file for the user. Its ``id`` is ``""`` unless a server can send it.

    ``address`` is the path in that case, or ``""`` if it is not kept.
    """

    id: str
    address: str
    name: str
    media_type: str
    content: bytes
    warnings: tuple[str, ...] = ()


def strip_thinking(text: str) -> str:
    r"""Return a text without its thinking sections, as RAGFlow does before it converts one.

    >>> strip_thinking("<think>a</think>b\n\n\n\nc<think>d")
    'b\n\nc'
    """
    return _BLANK_LINES.sub("\n\n", split_thoughts(text)[1]).strip()


async def write_report_file(ctx: RunContext, request: ReportRequest, name: str) -> ReportFile:
    """Write a file and keep it for the user.

    Raises:
        RagflowLgError: if it cannot be written or kept.
    """
    written = await ctx.services.of(Reports).write(request, lambda address: _load_image(ctx, address))
    media_type = MEDIA_TYPES[request.format]
    stored = await ctx.services.artifacts.store(Artifact(name, media_type, written.content), has_text=False)
    return ReportFile(stored.id, stored.url, name, media_type, written.content, written.warnings)


async def _load_image(ctx: RunContext, address: str) -> bytes | None:
    """Return an image of the agent's files, or one from the web if the settings allow that. Paths are never read."""
    if not address.startswith(("http://", "https://")):
        return await ctx.services.artifacts.find(address)
    if not ctx.services.of(Reports).fetches_images:
        return None
    request = HttpRequest("GET", address, max_response_bytes=MAX_IMAGE_BYTES, is_binary=True)
    response = await ctx.services.http.send(request)
    if response.status != 200:
        raise ServiceError(f"The image {address[:200]} cannot be fetched: status {response.status}.")
    return response.content
