"""Fetch the libraries of the page again: ``python deploy/fetch_page_libraries.py``. Needs npm and a network.

Each file is taken from the named version of its package and compared with its hash: a changed file is an error. After a
change of a version, the script prints the new hash.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parents[1] / "server" / "page" / "vendor"


class Library(NamedTuple):
    """One file of a package, and its SHA-256 in the folder, where it has no reference to a source map."""

    name: str
    package: str
    path: str
    sha256: str


LIBRARIES = (
    Library(
        "preact",
        "htm@3.1.1",
        "preact/standalone.module.js",
        "72284e8e9079c87817145df1110f74e8a2aa040b2fc384922e18dfcb46fc1fd7",
    ),
    Library(
        "marked",
        "marked@18.2.1",
        "lib/marked.esm.js",
        "c622dc6824a1c92c2d10ea9ede2fc872e46128afcc34b298e6ddee6f387ace8e",
    ),
    Library(
        "purify",
        "dompurify@3.4.18",
        "dist/purify.es.mjs",
        "f1f1ba66e2951e5ca14bc4e71e24cc503d35d49c68f9bcfa4fd97970cb71c76b",
    ),
    Library(
        "diff",
        "diff-match-patch-es@2.0.1",
        "dist/index.mjs",
        "d552bf3d9fe08df1943374c31383d6fb1d53a8675ca2d5838def70c40ffe9456",
    ),
)


def main() -> None:
    """Fetch every library.

    Raises:
        SystemExit: if a file has another hash.
    """
    for library in LIBRARIES:
        with tempfile.TemporaryDirectory() as folder:
            packed = subprocess.run(
                ["npm", "pack", "--silent", library.package], cwd=folder, capture_output=True, text=True, check=True
            )
            with tarfile.open(Path(folder, packed.stdout.strip())) as archive:
                script, licence = (_read(archive, f"package/{path}") for path in (library.path, "LICENSE"))
        lines = script.splitlines(keepends=True)
        script = b"".join(line for line in lines if not line.startswith(b"//# sourceMappingURL"))
        found = hashlib.sha256(script).hexdigest()
        if found != library.sha256:
            sys.exit(f"{library.package}: {library.path} has the hash {found}, not {library.sha256}.")
        (FOLDER / f"{library.name}.js").write_bytes(script)
        (FOLDER / f"{library.name}.LICENSE").write_bytes(licence)


def _read(archive: tarfile.TarFile, path: str) -> bytes:
    file = archive.extractfile(path)
    if file is None:
        sys.exit(f"{path} is not a file.")
    return file.read()


if __name__ == "__main__":
    main()
