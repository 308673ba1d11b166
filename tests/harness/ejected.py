"""Compare ejected packages with their canvases: ``python -m tests.campaigns eject [FILE_OR_DIR …] [OPTIONS]``.

``--random COUNT`` adds random canvases. ``--packages DIR`` also writes all packages, and has Ruff and Pyright (strict)
check them. The plan of a package has to be that of its canvas: then both do the same. Prints a line for each canvas,
then ``N equal, N different, N unsupported, N refused``.
"""

import argparse
import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ragflow_lg.base.errors import CompileError
from ragflow_lg.catalog import load_catalog
from ragflow_lg.component.plan import Plan
from ragflow_lg.dsl_compiler import check_canvas, inspect_canvas
from ragflow_lg.dsl_compiler.eject import EjectedPackage, eject_canvas
from ragflow_lg.dsl_compiler.passes.bind_components import EDITOR_KEYS
from ragflow_lg.ejected import Canvas
from ragflow_lg.server.assembly.ejection import format_files, write_files
from tests.harness.corpus import complete_params
from tests.harness.random_canvases import RandomCanvas

ROOT = Path(__file__).parents[2]


def load_package(package: EjectedPackage, folder: Path) -> Canvas:
    """Write a package into a folder, and return the canvas that it builds."""
    write_files(package.files, folder)
    os.environ.update(package.secrets)
    sys.path.insert(0, str(folder))
    try:
        importlib.invalidate_caches()
        return importlib.import_module(f"{package.name}.graph").build_canvas()
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.partition(".")[0] == package.name]:
            del sys.modules[name]


def describe(plan: Plan) -> dict[str, Any]:
    """Return what a plan does, without the params that no component reads."""
    described: dict[str, Any] = plan.as_json()
    for id_, node in described["nodes"].items():
        known, unused = plan.nodes[id_].spec.params.model_fields, plan.nodes[id_].spec.unused
        node["params"] = {
            key: value for key, value in node["params"].items() if key in known or key not in {*EDITOR_KEYS, *unused}
        }
    titles = [(plan.title, *(node.title for node in plan.nodes.values()))]
    return {**described, "titles": titles, "form": plan.form, "messages": dict(plan.messages)}


@dataclass
class Verdict:
    """The result for one canvas."""

    name: str
    state: str
    """``equal``, ``different``, ``unsupported`` or ``refused``."""
    lines: int = 0
    text: str = ""
    package: EjectedPackage | None = None


def judge(name: str, document: Any) -> Verdict:
    """Eject one canvas, and compare the plans."""
    checked = inspect_canvas(document, load_catalog())
    if checked.plan is None:
        codes = {found.code for found in checked.diagnostics if found.severity == "error"}
        return Verdict(name, "refused", text=" ".join(sorted(codes)))
    try:
        package = eject_canvas(checked, name="ejected_package", version="0")
    except CompileError as error:
        return Verdict(name, "unsupported", text="; ".join(f"{one.node}: {one.message}" for one in error.diagnostics))
    lines = sum(text.count("\n") for path, text in package.files.items() if path.endswith(".py"))
    with tempfile.TemporaryDirectory() as folder:
        written = load_package(package, Path(folder)).document()
    plan, diagnostics = check_canvas(written, load_catalog())
    if plan is None:
        return Verdict(name, "different", lines, "; ".join(one.message for one in diagnostics), package)
    problem = _first_difference(describe(checked.plan), describe(plan))
    return Verdict(name, "different" if problem else "equal", lines, problem, package)


def _first_difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    keys = [key for key in {**before, **after} if before.get(key, "missing") != after.get(key, "missing")]
    parts = (f"{key}: {before.get(key, 'missing')!r:.400} → {after.get(key, 'missing')!r:.400}" for key in keys[:2])
    return "; ".join(parts)


def judge_file(path: Path) -> Verdict:
    """Eject and compare the canvas in a file."""
    return judge(path.name, complete_params(json.loads(path.read_bytes())))


def judge_random(seed: int) -> Verdict:
    """Eject and compare a random canvas."""
    return judge(f"random {seed}", RandomCanvas(seed).case("")["dsl"])


def check_packages(folder: Path, packages: Sequence[EjectedPackage]) -> bool:
    """Write packages into a folder, and have Ruff and Pyright check them. Return whether they are clean."""
    for package in packages:
        write_files(format_files(package.files), folder / package.name)
    roots = [{"root": package.name, "extraPaths": [str(ROOT)]} for package in packages]
    settings = {"typeCheckingMode": "strict", "extraPaths": [str(ROOT)], "executionEnvironments": roots}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    python = sys.executable
    commands = [
        [python, "-m", "ruff", "format", "--check", "--quiet", str(folder)],
        [python, "-m", "ruff", "check", "--quiet", str(folder)],
        [python, "-m", "pyright", "--pythonpath", python, "-p", str(folder)],
    ]
    results = [subprocess.run(command, capture_output=True, text=True, check=False) for command in commands]
    for command, result in zip(commands, results, strict=True):
        line = (result.stdout.strip() or "clean").splitlines()[-1]
        sys.stdout.write(f"{' '.join(command[2:4])}: {result.returncode}, {line}\n")
    return not any(result.returncode for result in results)


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Compare ejected packages with their canvases.")
    parser.add_argument("paths", type=Path, nargs="*")
    parser.add_argument("--random", type=int, default=0, help="how many random canvases")
    parser.add_argument("--seed", type=int, default=0, help="the first random canvas")
    parser.add_argument("--packages", type=Path, help="folder for the packages, which are then checked")
    arguments = parser.parse_args()
    files = [file for path in arguments.paths for file in (sorted(path.glob("*.json")) if path.is_dir() else [path])]
    verdicts = [*map(judge_file, files), *(judge_random(arguments.seed + number) for number in range(arguments.random))]
    for number, verdict in enumerate(verdicts):
        if number < len(files) or verdict.state in ("different", "unsupported"):
            sys.stdout.write(f"{verdict.state:12} {verdict.lines:5}  {verdict.name}  {verdict.text}\n")
    states = ("equal", "different", "unsupported", "refused")
    counts = {state: sum(verdict.state == state for verdict in verdicts) for state in states}
    sys.stdout.write(", ".join(f"{count} {state}" for state, count in counts.items()) + "\n")
    packages = [replace_name(v.package, number) for number, v in enumerate(verdicts) if v.package is not None]
    is_clean = arguments.packages is None or check_packages(arguments.packages, packages)
    return 1 if counts["different"] or not is_clean else 0


def replace_name(package: EjectedPackage, number: int) -> EjectedPackage:
    """Return a package under another name, so that several fit into a folder."""
    name = f"{package.name}_{number}"
    pattern = re.compile(rf"\b{package.name}\b")
    files = {pattern.sub(name, path): pattern.sub(name, text) for path, text in package.files.items()}
    return replace(package, name=name, files=files)


if __name__ == "__main__":
    raise SystemExit(main())
