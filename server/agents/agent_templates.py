"""Canvases to start an agent from: built-in ones and those of a folder."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import orjson

from ragflow_lg.server.assembly.canvas_files import canvas_files

__all__ = ["load_templates"]

logger = logging.getLogger(__name__)

BUILT_IN = Path(__file__).parent / "templates"
MAX_TEMPLATES = 200
MAX_BYTES = 2 * 1024 * 1024


def load_templates(folder: Path | None) -> list[dict[str, Any]]:
    """Return the templates as RAGFlow's rows. Reads files; call it in a thread.

    A file is a canvas, or an object with ``title``, ``description``, ``canvas_type`` and ``dsl``. Other files are
    skipped and logged.
    """
    paths = [path for source in (BUILT_IN, folder) if source is not None for path in canvas_files(source)]
    return [row for path in paths[:MAX_TEMPLATES] for row in _rows(path)]


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ValueError(f"it has more than {MAX_BYTES:,} bytes")
        document: Any = orjson.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        logger.warning("Skipping the template %s: %s", path, error)
        return
    fields = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
    about = fields if isinstance(fields.get("dsl"), dict) else {"dsl": fields}
    if "components" not in about["dsl"]:
        logger.warning("Skipping the template %s: it is not a canvas.", path)
        return
    title = path.stem.replace("_", " ").capitalize()
    yield {
        "id": hashlib.sha256(path.name.encode()).hexdigest()[:32],
        "title": _in_languages(about.get("title") or title),
        "description": _in_languages(about.get("description") or ""),
        "canvas_type": str(about.get("canvas_type") or "Recommended"),
        "canvas_category": str(about.get("canvas_category") or "agent_canvas"),
        "avatar": about.get("avatar"),
        "dsl": about["dsl"],
    }


def _in_languages(text: Any) -> dict[str, str]:
    """Return texts by language, as RAGFlow's page expects them."""
    if isinstance(text, dict):
        return {str(language): str(value) for language, value in cast("dict[Any, Any]", text).items()}
    return {"en": str(text)}
