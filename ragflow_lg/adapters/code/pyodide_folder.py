"""Pyodide, the Python in Deno: where it is, whether it is the expected one, and how it is fetched.

Deno fetches the package ``pyodide`` from the npm registry that it is configured for. Each file must have a known hash.
A snapshot of the started interpreter, which saves each start several seconds, is stored beside them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ragflow_lg.base.errors import ServiceError, SettingsError

VERSION = "314.0.7"
FILES: Mapping[str, str] = {
    "package.json": "40ca48e43ce4ddc68412d5b7a7ca9e2477cd4f0e672277ae468ac2245717079b",
    "pyodide-lock.json": "5dc2fc119108bc148c7457dc86e7675b5c87e1cafd420b9c34c1eaef7b36c010",
    "pyodide.asm.mjs": "f7cdc8ece80678ceb712f8e65ebe6d3a83203a180c399865f49612a051693635",
    "pyodide.asm.wasm": "cc36e3cab04fdfc9a63ff13eb52eae2b911bf46c025cc7b281f394bd3de1d5e6",
    "pyodide.mjs": "6f1d60f7bf529beb300f0f47983c921d3982363640ba20af0e38efdddbc66109",
    "python_stdlib.zip": "fa1957e5777068fc4f7437f96d860ae2fbe9c19732ba06c84e004ec16dd7dd7a",
}
"""The SHA-256 of each file that is needed."""

SNAPSHOT = "snapshot.bin"
FETCH_S = 300.0
SNAPSHOT_S = 120.0
MAX_SHOWN_CHARS = 500

_MAKE_SNAPSHOT = """
const { loadPyodide } = await import(new URL('pyodide.mjs', Deno.args[0]));
const indexURL = decodeURIComponent(new URL(Deno.args[0]).pathname);
const python = await loadPyodide({ indexURL, env: {}, _makeSnapshot: true });
const bytes = python.makeMemorySnapshot();
for (let start = 0; start < bytes.length; ) start += Deno.stdout.writeSync(bytes.subarray(start));
"""


def default_folder() -> Path:
    """Return the folder of the user's cache in which Pyodide is kept."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache, "ragflow-lg", f"pyodide-{VERSION}")


def check_folder(folder: Path) -> None:
    """Check that a folder contains the expected files. This function reads them; call it in a thread.

    Raises:
        SettingsError: if it does not.
    """
    _check_files(folder)
    if not (folder / SNAPSHOT).is_file():
        raise SettingsError(f"{str(folder)!r} has no {SNAPSHOT}. Run `ragflow-lg sandbox setup`.")


def _check_files(folder: Path) -> None:
    for name, digest in FILES.items():
        try:
            content = (folder / name).read_bytes()
        except OSError:
            raise SettingsError(
                f"Python in Deno needs Pyodide {VERSION}, which is not in {str(folder)!r}. "
                "Run `ragflow-lg sandbox setup`, or install Bubblewrap (Linux)."
            ) from None
        if hashlib.sha256(content).hexdigest() != digest:
            raise SettingsError(
                f"{str(folder / name)!r} is not the file of Pyodide {VERSION}. Delete the folder, and run "
                "`ragflow-lg sandbox setup`."
            )


def fetch_pyodide(deno: str, folder: Path) -> None:
    """Fetch Pyodide with Deno, check its files, and put them and a snapshot into a folder.

    Raises:
        ServiceError: if it cannot be fetched, or is not the expected one.
    """
    with tempfile.TemporaryDirectory(prefix="ragflow-lg-pyodide-") as name:
        temporary = Path(name)
        command = (deno, "cache", "--no-config", f"npm:pyodide@{VERSION}")
        environment = {"DENO_TLS_CA_STORE": "system,mozilla", **os.environ, "DENO_DIR": name, "NO_COLOR": "1"}
        _run(command, environment, FETCH_S, "Pyodide cannot be fetched")
        found = next(temporary.glob(f"npm/**/pyodide/{VERSION}"), None)
        if found is None:
            raise ServiceError("Pyodide cannot be fetched: Deno has not stored the package.")
        staged = temporary / "staged"
        staged.mkdir()
        for file in FILES:
            shutil.copyfile(found / file, staged / file)
        try:
            _check_files(staged)
        except SettingsError as error:
            raise ServiceError(f"The package pyodide {VERSION} has other files than expected. {error}") from None
        (staged / SNAPSHOT).write_bytes(_make_snapshot(deno, staged))
        folder.mkdir(parents=True, exist_ok=True)
        for file in (*FILES, SNAPSHOT):
            shutil.copyfile(staged / file, folder / f"{file}.new")
            (folder / f"{file}.new").replace(folder / file)


def _make_snapshot(deno: str, folder: Path) -> bytes:
    """Start the interpreter once, with no permission but to read its folder. Return a copy of its memory."""
    program = folder.with_name("snapshot.mjs")
    program.write_text(_MAKE_SNAPSHOT, "utf-8")
    options = ("--no-config", "--no-remote", "--no-npm", "--no-prompt", f"--allow-read={folder}")
    command = (deno, "run", *options, str(program), f"{folder.as_uri()}/")
    environment = {"NO_COLOR": "1", "DENO_DIR": "/dev/null/deno"}
    return _run(command, environment, SNAPSHOT_S, "The snapshot of Pyodide cannot be made")


def _run(command: tuple[str, ...], environment: Mapping[str, str], limit_s: float, problem: str) -> bytes:
    """Return what a command prints.

    Raises:
        ServiceError: if it fails.
    """
    try:
        ending = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, env=dict(environment), timeout=limit_s, check=True
        )
    except subprocess.CalledProcessError as error:
        printed: bytes = error.stderr
        raise ServiceError(f"{problem}: {printed.decode('utf-8', 'replace').strip()[-MAX_SHOWN_CHARS:]}") from None
    except subprocess.TimeoutExpired:
        raise ServiceError(f"{problem}: it took longer than {limit_s:g} s.") from None
    except OSError as error:
        raise ServiceError(f"{problem}: {error}") from None
    return ending.stdout
