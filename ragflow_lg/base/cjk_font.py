"""The font for Chinese, Japanese and Korean that an extra installs."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

CJK_FAMILY = "Noto Sans CJK TC"
"""Its family. It has the characters of all three languages, in the shapes of traditional Chinese."""


def find_cjk_font() -> Path | None:
    """Return the file of the font, or None if the extra ``cjk`` is not installed."""
    spec = find_spec("cvttf_NotoSansCJK_Regular")
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    return next((file for folder in folders for file in sorted(Path(folder).glob("*.otf"))), None)
