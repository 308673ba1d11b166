"""Rules for source files. Each test lists the files that break its rule."""

import ast
import doctest
import importlib
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

import langgraph
import pytest

from ragflow_lg.catalog import find_specs, load_catalog
from ragflow_lg.dsl_compiler.placeholder import LEGACY, PIPELINE, RENAMED
from tests.architecture.sources import (
    FOLDERS,
    ROOT,
    Source,
    declared_names,
    functions,
    imported_modules,
    literals,
    sources,
)

pytestmark = pytest.mark.slow

LONGEST_FUNCTION = 60
"""Lines."""

LANGGRAPH_FILE = "ragflow_lg/base/langgraph_internals.py"
LANGGRAPH_LINES = 120

ENTRY_FILES = ("__init__", "__main__")


def test_public_names_of_rooms_exist_and_are_sorted() -> None:
    # In other modules the names without an underscore are public.
    offenders: list[str] = []
    for source in sources():
        if "__all__" not in source.text:
            continue
        declared = declared_names(source.tree)
        if declared is None:
            continue
        if source.path.name != "__init__.py":
            offenders.append(f"{source}: only the face of a room lists its names")
        module = importlib.import_module(source.module)
        offenders += [f"{source}: {name}" for name in declared if not hasattr(module, name)]
        if declared != sorted(set(declared), key=_constants_classes_functions):
            offenders.append(f"{source}: not sorted")
    assert offenders == []


def _constants_classes_functions(name: str) -> tuple[bool, bool, str]:
    return not name.isupper(), not name[0].isupper(), name


def test_every_room_says_what_is_inside() -> None:
    faces = [s for s in sources() if s.path.name == "__init__.py" and "migrations" not in s.path.parts]
    assert [str(face) for face in faces if not face.docstring] == []


def test_a_module_name_occurs_once_in_a_package() -> None:
    offenders: list[str] = []
    for folder in FOLDERS:
        names = Counter(source.path.stem for source in sources(folder))
        offenders += [f"{folder}: {name}" for name, count in names.items() if count > 1 and name not in ENTRY_FILES]
    assert offenders == []


def test_no_function_is_long() -> None:
    lengths = {
        f"{source}: {function.name}": (function.end_lineno or function.lineno) - function.lineno + 1
        for source in sources()
        for function in functions(source.tree)
    }
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST_FUNCTION} == {}


def test_every_text_outside_an_expression_documents_the_name_before_it() -> None:
    offenders = [
        f"{source}:{text.lineno}"
        for source in sources()
        for before, text in pairwise(source.tree.body)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
        if not isinstance(before, ast.Assign | ast.AnnAssign)
    ]
    assert offenders == []


def test_every_room_has_a_suite() -> None:
    rooms = {source.path.parent for source in sources() if source.path.name not in ("__init__.py", "__main__.py")}
    rooms = {room for room in rooms if "migrations" not in room.parts}  # tests/server/database/test_migration.py
    suites = {room: str(room).replace("ragflow_lg/integrations/", "integrations/") for room in rooms}
    assert [str(room) for room in sorted(rooms) if not list((ROOT / "tests" / suites[room]).glob("test_*.py"))] == []


def test_all_files_import_the_one_package() -> None:
    # From the root of the repository `import server` would work as well, and load every module twice.
    files = sources(*FOLDERS, "tests", "benchmarks", "examples")
    short = ("checkpoints", "dsl_compiler", "server")
    line = re.compile(rf"^\s*(?:from|import) (?:{'|'.join(short)})\b", re.MULTILINE)
    suspects = [file for file in files if line.search(file.text)]  # parsing all files takes seconds
    assert [str(f) for f in suspects if any(name.split(".")[0] in short for name in imported_modules(f.tree))] == []
    assert suspects, "a test shows a program that does it"


def test_every_folder_of_tests_is_a_package() -> None:
    folders = {parent for source in sources("tests") for parent in source.path.parents} - {Path()}
    exempt = {folder for folder in folders if folder.parts[:2] == ("tests", "fixtures")}
    assert [str(folder) for folder in folders - exempt if not (ROOT / folder / "__init__.py").is_file()] == []


def test_private_names_of_langgraph_are_used_in_one_file() -> None:
    folders = [Path(folder) for folder in langgraph.__path__]
    foreign = "\n".join(path.read_text("utf-8") for folder in folders for path in folder.rglob("*.py"))
    declared = set(re.findall(r"(?:def |self\.)(_[a-z]\w*)", foreign))
    texts = {str(source): source.text for source in sources()}
    declared -= set(re.findall(r"(?:def |self\.|\n    )(_[a-z]\w*)", "\n".join(texts.values())))
    assert len(texts[LANGGRAPH_FILE].splitlines()) <= LANGGRAPH_LINES
    offenders: list[str] = []
    for name, text in texts.items():
        modules = re.findall(r"(?:from|import) langgraph[\w.]*\._\w+|from langgraph[\w.]* import _\w+", text)
        attributes = set(re.findall(r"\w\._[a-z]\w*", text))
        modules += [text for text in attributes if text[2:] in declared]
        modules += re.findall(r'"(?:__pregel\w*|branch:to:)"|\.__class__ = ', text)
        offenders += [f"{name}: {found}" for found in modules if name != LANGGRAPH_FILE]
    assert offenders == []


def test_a_component_file_registers_exactly_one_component() -> None:
    offenders: list[str] = []
    for source in sources("ragflow_lg/components"):
        if source.path.stem == "__init__":
            continue
        specs = find_specs(importlib.import_module(source.module))
        names = sorted(spec.name.lower() for spec in specs if load_catalog().get(spec.name) is spec)
        if names != [source.path.stem.replace("_", "")]:
            offenders.append(f"{source}: {names}")
    assert offenders == []


def test_the_compiler_switches_on_kinds_and_not_on_names() -> None:
    names = {name for spec in load_catalog() for name in (spec.name, *spec.aliases)}
    names |= {*LEGACY, *PIPELINE, *RENAMED}
    spelled = {name for name in names if name != name.lower()}
    offenders = [
        f"{source}:{node.lineno}: {node.value!r}"
        for source in sources("dsl_compiler/passes", "dsl_compiler/lower")
        for node in literals(source.tree)
        if node.value in spelled
    ]
    assert offenders == []


def test_a_source_knows_its_module() -> None:
    assert Source(Path("server/http/app.py")).module == "ragflow_lg.server.http.app"
    assert Source(Path("ragflow_lg/base/__init__.py")).module == "ragflow_lg.base"


def test_examples_in_docstrings_are_true() -> None:
    modules = [importlib.import_module(source.module) for source in sources() if ">>> " in source.text]
    assert len(modules) > 20
    assert [module.__name__ for module in modules if doctest.testmod(module).failed] == []
