"""Deno and Pyodide for tests: Pyodide is fetched into ``.cache`` by version and hash.

``python -m tests.harness.pyodide_package`` fetches it.
"""

import sys
from functools import cache
from pathlib import Path

from ragflow_lg.adapters.code.deno import find_deno
from ragflow_lg.adapters.code.pyodide_folder import VERSION, check_folder, fetch_pyodide
from ragflow_lg.base.errors import RagflowLgError, SettingsError

FOLDER = Path(__file__).parents[2].joinpath(".cache").resolve() / "pyodide" / VERSION


@cache
def find() -> tuple[str, str]:
    """Return the path of Deno, or ``""`` and why the tests of it are skipped."""
    try:
        program = find_deno()
        check_folder(FOLDER)
    except SettingsError as error:
        return "", f"{error} In tests: make services"
    return program, ""


def prepare() -> str:
    """Fetch Pyodide if it is missing; return what was done."""
    if find()[0]:
        return f"deno: found {find()[0]}, and Pyodide in {FOLDER}."
    try:
        fetch_pyodide(find_deno(), FOLDER)
    except RagflowLgError as error:
        return f"deno: {error} Its tests are skipped."
    find.cache_clear()
    return f"deno: Pyodide {VERSION} fetched into {FOLDER}."


if __name__ == "__main__":
    sys.stdout.write(prepare() + "\n")
