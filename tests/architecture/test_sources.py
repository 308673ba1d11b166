"""Rules that every source file keeps."""

from __future__ import annotations

import ast
import importlib
import importlib.util
from pathlib import Path

import pytest

from ragflow_lg.catalog import load_catalog, specs_of
from ragflow_lg.dsl_compiler.known_components import LEGACY, NOT_YET, PIPELINE
from tests.architecture.sources import (
    PACKAGES,
    ROOT,
    Source,
    declared_names,
    definitions,
    functions,
    has_code,
    literals,
    sources,
)

LONGEST_FUNCTION = 60
"""Lines."""

NAME_TABLES = {"dsl_compiler/passes/migrate_names.py"}
"""The one pass that is about names of components."""


@pytest.mark.parametrize("source", sources(), ids=str)
def test_public_names_exist_and_are_sorted(source: Source) -> None:
    declared = declared_names(source.tree)
    if declared is None:
        assert [name for name in definitions(source.tree) if not name.startswith("_")] == []
        return
    module = importlib.import_module(source.module)
    assert [name for name in declared if not hasattr(module, name)] == []
    assert declared == sorted(set(declared), key=_constants_classes_functions)


def _constants_classes_functions(name: str) -> tuple[bool, bool, str]:
    return not name.isupper(), not name[0].isupper(), name


@pytest.mark.parametrize("package", [name for name in PACKAGES if (ROOT / name / "__init__.py").stat().st_size])
def test_the_face_of_a_package_shows_what_it_declares(package: str) -> None:
    tree = Source(Path(package) / "__init__.py").tree
    ours = [node for node in tree.body if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGES)]
    bound = {*definitions(tree), *(alias.asname or alias.name for node in ours for alias in node.names)}
    assert {name for name in bound if not name.startswith("_")} <= set(declared_names(tree) or ())


@pytest.mark.parametrize("package", PACKAGES)
def test_the_short_package_names_mean_this_repository(package: str) -> None:
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin == str(ROOT / package / "__init__.py")


@pytest.mark.parametrize("source", sources(), ids=str)
def test_no_function_is_long(source: Source) -> None:
    lengths = {f.name: (f.end_lineno or f.lineno) - f.lineno + 1 for f in functions(source.tree)}
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST_FUNCTION} == {}


@pytest.mark.parametrize("source", [s for s in sources() if has_code(s.tree)], ids=str)
def test_every_file_has_its_test(source: Source) -> None:
    if source.path.parent.name == "components" and not _is_ready(source):
        return  # tests/ragflow_lg/components/test_every_component.py holds all there is to say
    name = source.path.parent.name if source.path.name == "__init__.py" else source.path.stem
    mirror = ROOT / "tests" / source.path.with_name(f"test_{name}.py")
    assert mirror.is_file(), f"{source} is tested in {mirror.relative_to(ROOT)}"


def _is_ready(source: Source) -> bool:
    return all(spec.is_ready for spec in specs_of(importlib.import_module(source.module)))


def test_every_folder_of_tests_is_a_package() -> None:
    # Without tests/__init__.py, tests/server would be imported in place of our own server.
    folders = {parent for source in sources("tests") for parent in source.path.parents} - {Path()}
    exempt = {folder for folder in folders if folder.parts[:2] == ("tests", "fixtures")}
    assert [str(folder) for folder in folders - exempt if not (ROOT / folder / "__init__.py").is_file()] == []


@pytest.mark.parametrize("source", sources("ragflow_lg/components")[1:], ids=str)
def test_a_component_file_registers_exactly_one_component(source: Source) -> None:
    (spec,) = specs_of(importlib.import_module(source.module))
    assert load_catalog().get(spec.name) is spec
    assert spec.name.lower() == source.path.stem.replace("_", "")


@pytest.mark.parametrize("source", sources("dsl_compiler/passes", "dsl_compiler/lower"), ids=str)
def test_the_compiler_asks_for_kinds_not_for_names(source: Source) -> None:
    if str(source) in NAME_TABLES:
        return
    names = {name for spec in load_catalog() for name in (spec.name, *spec.aliases)}
    names |= {*LEGACY, *NOT_YET, *PIPELINE}
    spelled = {name for name in names if name != name.lower()}
    assert [f"{node.value!r} in line {node.lineno}" for node in literals(source.tree) if node.value in spelled] == []
