"""Install this checkout in an environment, which it creates if there is none: ``set_up.py [--clear] FOLDER [EXTRA]``.

It needs only Python. The pip that comes with Python can be old, and its choice among the files of a package slow, so
the pinned pip replaces it first. Files are not compiled here, but when they are imported.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
STEP = 25
"""Where a line cannot be overwritten, every this many packages get one."""


def create_environment(folder: Path) -> None:
    """Create an environment with the pip that comes with Python."""
    try:
        import ensurepip
    except ImportError:
        raise SystemExit("This Python has no ensurepip; on Debian and Ubuntu, install python3-venv.") from None
    venv.create(folder, clear=True, symlinks=True)
    bundles = [
        Path(ensurepip.__file__).with_name("_bundled"),
        Path(sysconfig.get_config_var("WHEEL_PKG_DIR") or "none"),
    ]
    wheel = next((wheel for bundle in bundles for wheel in bundle.glob("pip-*.whl")), None)
    if wheel:  # ensurepip would install setuptools as well and compile both: that takes six times as long
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(sysconfig.get_path("purelib", "venv", {"base": str(folder)}))
    else:
        subprocess.run([folder / "bin" / "python", "-m", "ensurepip"], check=True)


def install(folder: Path, *arguments: str) -> None:
    """Call ``pip install``; show how many packages it has found, if it is to look for any."""
    command = [str(folder / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check", "--no-compile"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    found = 0
    with subprocess.Popen(
        [*command, "--progress-bar", "off", "--constraint", "constraints.txt", *arguments],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as pip:
        for line in pip.stdout or ():
            if line.startswith("Collecting "):
                found += 1
                show_count(found)
            elif line.startswith("Installing collected"):
                show_count(found, ", installing …\n")
    if pip.returncode:
        raise SystemExit(pip.returncode)  # pip has said why


def show_count(found: int, end: str = "") -> None:
    """Write how many packages are found: in one line of a terminal, elsewhere in a few lines."""
    if sys.stdout.isatty():
        sys.stdout.write(f"\r  {found:3} packages found{end}")
    elif end or found % STEP == 0:
        sys.stdout.write(f"  {found:3} packages found{end or os.linesep}")
    sys.stdout.flush()


def main() -> None:
    """Create the environment and install."""
    if not (3, 11) <= sys.version_info[:2] <= (3, 13):
        raise SystemExit("ragflow-lg needs Python 3.11 to 3.13; choose one with PY=python3.12 make …")
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("extra", nargs="?", help="an extra of pyproject.toml")
    parser.add_argument("--clear", action="store_true", help="replace an environment that is there")
    asked = parser.parse_args()
    folder: Path = asked.folder.absolute()
    if asked.clear or not (folder / "bin" / "python").exists():
        create_environment(folder)
    install(folder, "--quiet", "pip", "setuptools")
    # First the project alone, with the setuptools that is there: an environment only for building takes seconds. Then
    # what it needs; what has no wheel is built in such an environment.
    install(folder, "--quiet", "--no-deps", "--no-build-isolation", "--editable", ".")
    install(folder, f"ragflow-lg[{asked.extra}]" if asked.extra else "ragflow-lg")


if __name__ == "__main__":
    main()
