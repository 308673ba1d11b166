"""Conformance cases: reading them, and what each part of one means for our engine."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LATER = frozenset({"CodeExec"})
"""Components that this version cannot run; a case with one of them is skipped by its name."""


@dataclass(frozen=True)
class Case:
    """One recorded or written behaviour: a canvas, turns, and what each turn is to give."""

    data: Mapping[str, Any]

    @property
    def id(self) -> str:
        return self.data["id"]

    @property
    def components(self) -> dict[str, str]:
        """Component names by id."""
        found: dict[str, str] = {}
        for id_, component in self.data["dsl"].get("components", {}).items():
            found[id_] = component["obj"]["component_name"]
        return found

    @property
    def later(self) -> list[str]:
        """Names of components that keep the case from being played."""
        text = json.dumps(self.data["dsl"])
        return sorted(name for name in LATER if f'"component_name": "{name}"' in text)

    @property
    def servers(self) -> set[str]:
        """Ids of the MCP servers that the canvas calls."""
        objects = (
            component["obj"].get("params") or {} for component in self.data["dsl"].get("components", {}).values()
        )
        return {entry["mcp_id"] for params in objects for entry in params.get("mcp") or ()}

    @property
    def is_quirk(self) -> bool:
        return bool(self.data.get("quirk"))

    @property
    def expected(self) -> list[Mapping[str, Any]]:
        """What each turn is to give; where only a live canvas did what it should, what that one gave.

        Behind the turn in which a live run ended, its recordings show another fault, so the rest is not played.
        """
        live = self.data.get("expect_live")
        if not live:
            return self.data["expect"]
        ended = next(
            (i for i, turn in enumerate(live) if turn["events"][-1]["event"] == "workflow_finished"), len(live)
        )
        return live[: ended + 1]

    def sane(self, turn: int) -> Mapping[str, Any] | None:
        sane = self.data.get("sane")
        return sane[turn] if sane else None


def read_cases(folder: Path) -> Iterator[Case]:
    """Read every case file of a folder, by name."""
    for path in sorted(folder.glob("*.json")):
        yield Case(json.loads(path.read_text(encoding="utf-8")))
