"""Writes a session's record into one page with everything that it needs, which opens from disk without a network."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Any

import orjson

from ragflow_lg.server import page
from ragflow_lg.server.page.run_file.script_bundle import join_scripts

_FOLDER = Path(page.__file__).parent
_END_OF_SCRIPT = re.compile("<(?=/script|!--|script)", re.IGNORECASE)


def build_run_file(record: Mapping[str, Any]) -> bytes:
    """Return the page. Its policy allows no script but its own, and no request.

    Args:
        record: What `SessionReader` has read, as JSON.
    """
    script, style = _own_parts()
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data: blob:; "
        "media-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    title = escape(str(record["session"]["title"]))
    # The browser ends an inline script, and so the record, at the first `</script`.
    data = orjson.dumps(record).decode().replace("<", "\\u003c")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
        f'<title>{title}</title>\n<link rel="icon" href="data:,">\n<style>{style}</style>\n</head>\n<body>\n'
        '<div id="app"></div>\n<noscript>This page needs JavaScript.</noscript>\n'
        f'<script type="application/json" id="record">{data}</script>\n<script>{script}</script>\n</body>\n</html>\n'
    ).encode()


@lru_cache(maxsize=1)
def _own_parts() -> tuple[str, str]:
    """Return the page's script and its style, the same for every file."""
    script = join_scripts(_FOLDER / "js" / "run_file.js")
    style = "".join((_FOLDER / name).read_text("utf-8") for name in ("page.css", "graph.css"))
    return _END_OF_SCRIPT.sub(r"\\x3c", script), style


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
