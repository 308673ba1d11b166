"""Canvases to begin an agent with: built-in ones, and those of a folder."""

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
    """Give the templates as RAGFlow's rows have them. It reads files; call it in a thread.

    A file is a canvas, or a map of ``title``, ``description``, ``canvas_type`` and ``dsl``. One that is neither is left
    out, and logged.
    """
    paths = [path for place in (BUILT_IN, folder) if place is not None for path in canvas_files(place)]
    return [row for path in paths[:MAX_TEMPLATES] for row in _rows(path)]


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ValueError(f"it has more than {MAX_BYTES:,} bytes")
        document: Any = orjson.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        logger.warning("The template %s is left out: %s", path, error)
        return
    held = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
    about = held if isinstance(held.get("dsl"), dict) else {"dsl": held}
    if "components" not in about["dsl"]:
        logger.warning("The template %s is left out: it is no canvas.", path)
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
    """Give texts by language, as RAGFlow's page reads them."""
    if isinstance(text, dict):
        return {str(language): str(said) for language, said in cast("dict[Any, Any]", text).items()}
    return {"en": str(text)}
