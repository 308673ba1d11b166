"""Write ``deploy/requirements.txt``: what the image installs, each file with its hash.

The versions are those of ``constraints.txt``. The hashes come from the index that pip uses; its address is not written.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
FILE = ROOT / "deploy" / "requirements.txt"
PYTHON = "3.13"
"""The version of Python in the image."""
MACHINES = ("x86_64", "aarch64")
LIBC = ("manylinux_2_36", "manylinux_2_34", "manylinux_2_31", "manylinux_2_28", "manylinux_2_26", "manylinux_2_24")
OLD_LIBC = ("manylinux_2_17", "manylinux2014", "manylinux2010", "manylinux1")

HEAD = """# What the image installs, by hash. Written by deploy/pin_hashes.py from constraints.txt; do not edit.
"""


def read_roots() -> list[Requirement]:
    """Return what the distribution with the extra ``all``, and its build, need."""
    document = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    project = document["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    wanted = [*document["build-system"]["requires"], *project["dependencies"]]
    unread, read = ["all"], set[str]()
    while unread:
        name = unread.pop()
        if name in read:
            continue
        read.add(name)
        for line in extras[name]:
            requirement = Requirement(line)
            if requirement.name == project["name"]:
                unread += requirement.extras
            else:
                wanted.append(line)
    return [Requirement(line) for line in wanted]


def image_environment(machine: str) -> dict[str, str]:
    """Return the values of markers in the image."""
    facts = {
        "python_version": PYTHON,
        "python_full_version": f"{PYTHON}.0",
        "implementation_version": f"{PYTHON}.0",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "os_name": "posix",
        "platform_machine": machine,
    }
    return {**{name: str(value) for name, value in default_environment().items()}, **facts}


def read_pins() -> dict[str, str]:
    """Return the versions in ``constraints.txt``, by name."""
    pins: dict[str, str] = {}
    for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines():
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate(image_environment(MACHINES[0])):
            pins[canonicalize_name(requirement.name)] = str(requirement.specifier).removeprefix("==")
    return pins


def find_files(names: Iterable[str], pins: dict[str, str], machine: str) -> list[dict[str, Any]]:
    """Return pip's report of the files that it would install on a machine; nothing is installed."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        platforms = [f"--platform={libc}_{machine}" for libc in (*LIBC, *OLD_LIBC)]
        subprocess.run(
            [
                *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--dry-run"),
                *("--ignore-installed", "--no-deps", "--prefer-binary", f"--target={folder}/target"),
                *(f"--report={report}", f"--python-version={PYTHON}", "--implementation=cp", *platforms),
                *(f"{name}=={pins[name]}" for name in names),
            ],
            check=True,
        )
        return json.loads(report.read_text("utf-8"))["install"]


def dependencies(metadata: dict[str, Any], extras: Iterable[str], machine: str) -> Iterator[Requirement]:
    """Yield the requirements of a distribution that apply in the image."""
    environment = image_environment(machine)
    for line in metadata.get("requires_dist", []):
        requirement = Requirement(line)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({**environment, "extra": extra}) for extra in ("", *extras)):
            yield requirement


def collect_hashes(machine: str, pins: dict[str, str]) -> dict[str, str]:
    """Return the hash of every distribution that the image needs on a machine, by name."""
    hashes: dict[str, str] = {}
    metadata: dict[str, Any] = {}
    extras: dict[str, set[str]] = {}
    unread = read_roots()
    while unread:
        for requirement in unread:
            extras.setdefault(canonicalize_name(requirement.name), set()).update(requirement.extras)
        missing = sorted(extras.keys() - hashes.keys())
        for entry in find_files(missing, pins, machine) if missing else ():
            name = canonicalize_name(entry["metadata"]["name"])
            hashes[name] = entry["download_info"]["archive_info"]["hashes"]["sha256"]
            metadata[name] = entry["metadata"]
        found = [d for name in extras for d in dependencies(metadata[name], extras[name], machine)]
        unread = [
            each
            for each in found
            if (name := canonicalize_name(each.name)) not in extras or not each.extras <= extras[name]
        ]
    return hashes


def main() -> None:
    """Write the file."""
    pins = read_pins()
    by_machine = [collect_hashes(machine, pins) for machine in MACHINES]
    lines: list[str] = []
    for name in sorted({name for hashes in by_machine for name in hashes}):
        hashes = sorted({hashes[name] for hashes in by_machine if name in hashes})
        lines.append(" \\\n    ".join([f"{name}=={pins[name]}", *(f"--hash=sha256:{each}" for each in hashes)]))
    FILE.write_text(HEAD + "\n".join(lines) + "\n", "utf-8")
    sys.stdout.write(f"{FILE.relative_to(ROOT)}: {len(lines)} distributions\n")


if __name__ == "__main__":
    main()
