"""Suggestions for the name of a file that does not exist."""

from __future__ import annotations

from difflib import get_close_matches
from itertools import islice
from pathlib import Path

MAX_FILES = 1000
"""Maximum number of files in a folder that are compared."""


def suggest_file(path: Path) -> str:
    """Return a question that suggests a file with a similar name in the same folder, preceded by a space, or ``""``.

    A similar folder is suggested if the folder itself does not exist.
    """
    missing = next((each for each in (path, *path.parents) if each.name and each.parent.is_dir()), None)
    if missing is None or missing.exists():
        return ""
    try:
        names = [other.name for other in islice(missing.parent.iterdir(), MAX_FILES)]
    except OSError:
        return ""
    by_lower_case = {name.lower(): name for name in names}
    near = get_close_matches(missing.name.lower(), by_lower_case, n=1, cutoff=0.8)
    if not near:
        return ""
    folder = missing.with_name(by_lower_case[near[0]])
    file = folder / path.relative_to(missing)
    return f" Did you mean {str(file if file.exists() else folder)!r}?"
