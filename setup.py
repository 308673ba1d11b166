"""Stop a build from a checkout without symbolic links: git on Windows writes text files in their place."""

from pathlib import Path

from setuptools import setup

for name in ("checkpoints", "dsl_compiler", "server"):
    if not (Path(__file__).parent / "ragflow_lg" / name).is_dir():
        raise SystemExit(
            f"ragflow_lg/{name} is no link to ../{name}: this checkout has no symbolic links. On Windows switch on "
            "Developer Mode, run `git config --global core.symlinks true`, and clone again."
        )

setup()
