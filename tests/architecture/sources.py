"""The project's own source files, as the architecture tests walk them."""

import ast
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
FOLDERS = ("ragflow_lg", "dsl_compiler", "checkpoints", "server")
"""The folders of the package; the last three are linked into the first."""


@dataclass(frozen=True)
class Source:
    """One module of the four packages."""

    path: Path
    """From the root of the repository."""

    def __str__(self) -> str:
        return self.path.as_posix()

    @property
    def module(self) -> str:
        """Return the dotted name."""
        parts = self.path.with_suffix("").parts
        inside = parts if parts[0] in ("ragflow_lg", "tests") else ("ragflow_lg", *parts)
        return ".".join(inside[:-1] if inside[-1] == "__init__" else inside)

    @property
    def text(self) -> str:
        """Read the file."""
        return (ROOT / self.path).read_text("utf-8")

    @property
    def tree(self) -> ast.Module:
        """Parse the file."""
        return ast.parse(self.text, filename=str(self))

    @property
    def docstring(self) -> str | None:
        """Return the docstring of the module."""
        return ast.get_docstring(self.tree)


def sources(*folders: str) -> list[Source]:
    """Return all modules below the folders, by default those of the four packages."""
    found = [path for folder in folders or FOLDERS for path in (ROOT / folder).rglob("*.py")]
    return [Source(path.relative_to(ROOT)) for path in sorted(found)]


def load_script(path: Path) -> ModuleType:
    """Return a script that is in no package as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def declared_names(tree: ast.Module) -> list[str] | None:
    """Return what a module's ``__all__`` lists, or None if it has none."""
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                return list(ast.literal_eval(value))
            case _:
                pass
    return None


def imported_modules(tree: ast.Module) -> Iterator[str]:
    """Go through the dotted names of all modules that a module imports, wherever it does."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(name)):
                yield name
            case ast.Call(func=ast.Attribute(attr="import_module"), args=[ast.Constant(value=str(name))]):
                yield name
            case _:
                pass


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Go through all functions and methods of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def literals(tree: ast.Module) -> Iterator[ast.Constant]:
    """Go through all string constants but docstrings."""
    documentation = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node
