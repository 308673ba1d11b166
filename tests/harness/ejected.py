"""Ejected packages, compared with their canvases: the plan of a package has to be that of its canvas."""

import importlib
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragflow_lg.base.errors import CompileError
from ragflow_lg.catalog import load_catalog
from ragflow_lg.component.plan import Plan
from ragflow_lg.dsl_compiler import check_canvas, inspect_canvas
from ragflow_lg.dsl_compiler.passes.bind_components import keys_without_effect
from ragflow_lg.ejected import Canvas
from ragflow_lg.integrations.eject.ejection import write_files
from ragflow_lg.integrations.eject.package import EjectedPackage, eject_canvas
from tests.harness.corpus import complete_params


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
        spec = plan.nodes[id_].spec
        unread = keys_without_effect(spec) - spec.params.model_fields.keys()
        node["params"] = {key: value for key, value in node["params"].items() if key not in unread}
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
