"""Reports as pages: one file of HTML each, which opens without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def render_page(name: str, folder: Path | None = None, **values: Any) -> str:
    """Return a page from a template in this folder or in another one. All values are escaped, unless they are Markup.

    The filter ``code`` shows what is between backticks as code.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    folders = [Path(__file__).parent, *([folder] if folder else [])]
    environment = Environment(loader=FileSystemLoader(folders), autoescape=True, undefined=StrictUndefined)
    environment.filters["code"] = _mark_code
    return environment.get_template(name).render(**values)


def _mark_code(text: str) -> Any:
    from markupsafe import Markup, escape

    parts = str(escape(text)).split("`")
    return Markup("".join(f"<code>{part}</code>" if index % 2 else part for index, part in enumerate(parts)))
