"""Fetch the libraries and icons of the page again, as `server/page/vendor/vendor.json` names them.

Needs npm and a network. Each package and each written file must have the hash that is named there. After a change of a
version or of the icons, `--update` writes the new hashes instead.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "server" / "page" / "vendor"
LIST = FOLDER / "vendor.json"


def main(arguments: list[str]) -> None:
    """Write the files. Raise an error about the first one that is not what it was."""
    libraries: list[dict[str, Any]] = json.loads(LIST.read_text("utf-8"))
    for library in libraries:
        package, part, licence = _fetch(library)
        script = _as_module(part, library)
        found = {"package": _hash("sha512", package), "sha256": hashlib.sha256(script).hexdigest()}
        if "--update" not in arguments and any(library.get(key) != value for key, value in found.items()):
            raise SystemExit(f"{library['file']} differs: {found}")
        library |= found
        (FOLDER / library["file"]).write_bytes(script)
        (FOLDER / library["file"]).with_suffix(".LICENSE").write_bytes(licence)
    LIST.write_text(json.dumps(libraries, indent=2) + "\n", "utf-8")


def _fetch(library: dict[str, Any]) -> tuple[bytes, bytes, bytes]:
    """Return a package, its part that the page has, and its licence."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", "--silent", "--ignore-scripts", f"{library['name']}@{library['version']}"]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        (file,) = Path(folder).iterdir()
        with tarfile.open(file) as archive:
            part, licence = (archive.extractfile(f"package/{name}") for name in (library["part"], "LICENSE"))
            assert part
            assert licence
            return file.read_bytes(), part.read(), licence.read()


def _hash(name: str, content: bytes) -> str:
    return f"{name}-{base64.b64encode(hashlib.new(name, content).digest()).decode()}"


def _as_module(part: bytes, library: dict[str, Any]) -> bytes:
    """Return a script without its reference to a source map, with an export if it has none; or the chosen icons."""
    if icons := library.get("icons"):
        nodes = json.loads(part)
        rows = [
            f"  {json.dumps(name)}: {json.dumps(nodes[there], separators=(',', ':'))},\n"
            for name, there in icons.items()
        ]
        return f"export const ICONS = {{\n{''.join(rows)}}};\n".encode()
    text = re.sub(r"(?m)^//# sourceMappingURL.*\n?", "", part.decode())
    return (text + library.get("end", "")).encode()


if __name__ == "__main__":
    main(sys.argv[1:])
