"""Count the rooms of the packages: ``python -m tests.harness.rooms [PACKAGE]``; with a package, show each of its rooms.

A room is a module or package directly in a package; an arrow leads from a room to one that it imports, also if it does
so only for types. The floor of a room is the longest way of arrows down from it. The lines and files of Python
are counted as well. Exit code 1: there is more of something than `LIMITS` and `BUDGET` permit.
"""

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import grimp

OUTSIDE = ("server", "checkpoints", "dsl_compiler", "integrations")
"""Packages that are counted on their own, or on top of all others."""


class Plan(NamedTuple):
    """How many rooms, floors and arrows a package has."""

    rooms: int
    floors: int
    arrows: int


LIMITS = {
    "ragflow_lg": Plan(15, 8, 51),
    "ragflow_lg.server": Plan(10, 6, 30),
    "ragflow_lg.checkpoints": Plan(12, 5, 34),
}


class Size(NamedTuple):
    """How much there is of something."""

    lines: int
    files: int


BUDGET = {"core": Size(85_516, 561), "integrations": Size(24_987, 174), "tests": Size(86_401, 789)}
"""Lowered by what a change takes away; raised only by what something new adds, in a commit of its own."""
ROOT = Path(__file__).parents[2]
PACKAGES = ("ragflow_lg", *(f"ragflow_lg.{name}" for name in OUTSIDE[:-1]))


def read_rooms(graph: grimp.ImportGraph, package: str) -> dict[str, set[str]]:
    """Return the rooms of a package, each with the rooms that it imports."""
    outside = {f"ragflow_lg.{name}" for name in OUTSIDE} if package == "ragflow_lg" else set[str]()
    rooms: dict[str, set[str]] = {room: set() for room in graph.find_children(package) - outside}
    depth = package.count(".") + 2
    for module in graph.modules:
        room = ".".join(module.split(".")[:depth])
        if room in rooms:
            imported = graph.find_modules_directly_imported_by(module)
            rooms[room] |= {".".join(name.split(".")[:depth]) for name in imported}
    return {room: (targets & rooms.keys()) - {room} for room, targets in rooms.items()}


def floor_of(rooms: Mapping[str, set[str]], room: str) -> int:
    """Return the floor of a room, from 1. There must be no circle; an import contract refuses them."""
    return 1 + max((floor_of(rooms, target) for target in rooms[room]), default=0)


def count_sizes() -> dict[str, Size]:
    """Return the lines and files of Python, without what is linked."""
    integrations = set((ROOT / "ragflow_lg" / "integrations").rglob("*.py"))
    product = {
        file
        for folder in ("ragflow_lg", "dsl_compiler", "checkpoints", "server")
        for file in (ROOT / folder).rglob("*.py")
        if not any(parent.is_symlink() for parent in file.parents)
    }
    parts = {"core": product - integrations, "integrations": integrations, "tests": (ROOT / "tests").rglob("*.py")}
    return {part: _size(files) for part, files in parts.items()}


def _size(files: Iterable[Path]) -> Size:
    lines = [len(file.read_bytes().splitlines()) for file in files]
    return Size(sum(lines), len(lines))


def main() -> int:
    """Print a line for each package, or for each room of one; return 1 if there is too much of something."""
    graph = grimp.build_graph("ragflow_lg", exclude_type_checking_imports=False, cache_dir=".cache/grimp")
    exit_code = 0
    for part, size in count_sizes().items():
        is_too_much = any(a > b for a, b in zip(size, BUDGET[part], strict=True))
        note = f"; more than {BUDGET[part]}" if is_too_much else ""
        sys.stdout.write(f"{part}: {size.lines} lines in {size.files} files{note}\n")
        exit_code = exit_code or int(is_too_much)
    for package in PACKAGES:
        rooms = read_rooms(graph, package)
        floors = {room: floor_of(rooms, room) for room in rooms}
        plan = Plan(len(rooms), max(floors.values()), sum(map(len, rooms.values())))
        is_too_much = package in LIMITS and any(a > b for a, b in zip(plan, LIMITS[package], strict=True))
        note = f"; more than {LIMITS[package]}" if is_too_much else ""
        sys.stdout.write(f"{package}: {plan.rooms} rooms, {plan.floors} floors, {plan.arrows} arrows{note}\n")
        exit_code = exit_code or int(is_too_much)
        if package in sys.argv[1:]:
            for room in sorted(rooms, key=lambda room: (-floors[room], room)):
                targets = ", ".join(sorted(target.rpartition(".")[2] for target in rooms[room]))
                sys.stdout.write(f"{floors[room]:>4}  {room.rpartition('.')[2]}: {targets or 'nothing'}\n")
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
