"""The section for the sizes of request bodies, by what they contain."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ragflow_lg.server.settings.sections import Section

Size = Annotated[int, Field(gt=0)]


class BodySection(Section):
    """``[server.body_bytes]``: largest request bodies by what they contain. None exceeds ``max_body_bytes``."""

    sign_in: Size = 16 * 1024
    """Passwords and keys, which anybody may send."""
    fields: Size = 1024**2
    """Names, ids, forms of the editor and everything else that is not listed here."""
    turn: Size = 4 * 1024**2
    """Queries, messages, form values."""
    canvas: Size | None = None
    """Canvases. Default: ``canvas_bytes`` under ``[limits]``, and 1 MiB for the other fields."""
    webhook: Size = 10 * 1024**2
    """Calls of webhooks, which may contain files. A canvas can only lower this limit."""
    upload: Size | None = None
    """Uploads with all their files. Default: ``max_body_bytes``."""
