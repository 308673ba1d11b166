"""Parts of libraries that other libraries import and that a command seldom uses. They take a fifth of its start.

`importlib.util.LazyLoader` cannot be used for packages: it executes them as soon as one of their modules is imported.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from threading import RLock
from types import ModuleType
from typing import Any

PACKAGES = frozenset(
    {
        "langchain_openai",
        "langchain_openai.chat_models",
        "langgraph_sdk",
        "langsmith.types",
        "openai.types",
        "openai.types.responses",
    }
)
"""Packages of which only one or two modules are needed.

The first two load models of Azure, embeddings and a tokenizer; the SDK loads an HTTP client and WebSockets; the others
define 60 and 400 models. Without them the client for chats loads in half the time.
"""

UNUSED = ("httpx._main",)
"""Optional modules that nobody uses: HTTPX's own command loads Click, Pygments and parts of Rich."""

_lock = RLock()


def defer_imports() -> None:
    """Execute some packages only when one of their own names is used. Everything else works as without this call."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    for name in UNUSED:
        # None stands for a module that is not installed.
        sys.modules.setdefault(name, None)  # pyright: ignore[reportArgumentType]


class _Finder(MetaPathFinder):
    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in PACKAGES:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(Loader):
    """Creates a package and does not execute it. Its modules can be imported, because its path is known."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        ModuleType.__setattr__(module, "__class__", _Deferred)


class _Deferred(ModuleType):
    """A package that is executed when a name is read that it does not have yet."""

    def __getattr__(self, name: str) -> Any:
        with _lock:
            spec = self.__spec__
            if spec is not None and isinstance(spec.loader, _Loader):
                spec.loader = self.__loader__ = spec.loader.loader
                spec.loader.exec_module(self)
        if name in self.__dict__:
            return self.__dict__[name]
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
