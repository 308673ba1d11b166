"""Conformance cases of RAGFlow's behaviour, read from files."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Case:
    """A recorded or written behaviour: a canvas, turns, and the expected result of each turn."""

    data: Mapping[str, Any]

    @property
    def id(self) -> str:
        return self.data["id"]

    @property
    def components(self) -> dict[str, str]:
        """Component names by id."""
        components = self.data["dsl"].get("components", {})
        return {id_: component["obj"]["component_name"] for id_, component in components.items()}

    @property
    def servers(self) -> set[str]:
        """Ids of the MCP servers that the canvas calls."""
        params_of_components: Iterator[Any] = (
            component["obj"].get("params") or {} for component in self.data["dsl"].get("components", {}).values()
        )
        return {entry["mcp_id"] for params in params_of_components for entry in params.get("mcp") or ()}

    @property
    def expected(self) -> list[Mapping[str, Any]]:
        """The expected results of the turns.

        If only a live canvas behaved correctly, these are its results up to the turn in which its run ended. Its later
        recordings show another fault.
        """
        live = self.data.get("expect_live")
        if not live:
            return self.data["expect"]
        ended = next(
            (i for i, turn in enumerate(live) if turn["events"][-1]["event"] == "workflow_finished"), len(live)
        )
        return live[: ended + 1]

    @property
    def option(self) -> str:
        """The behaviour of RAGFlow that the case is about, or ``""``."""
        return self.data.get("option", "")

    def with_compatibility(self, choices: Any) -> "Case":
        """Return the case with a canvas that chooses RAGFlow's behaviours, and with what it then expects."""
        dsl = {**self.data["dsl"], "compat": choices}
        ragflow = self.data["ragflow"] if "ragflow" in self.data and self.option else self.data["expect"]
        return Case({**self.data, "dsl": dsl, "expect": self.data.get("expect_compat", ragflow)})

    def alternative(self, turn: int) -> Mapping[str, Any] | None:
        """Return the better result that the case names for a faulty turn of RAGFlow, if any."""
        sane = self.data.get("sane")
        return sane[turn] if sane else None


def read_cases(folder: Path) -> Iterator[Case]:
    """Yield every case of a folder, in the order of the file names."""
    for path in sorted(folder.glob("*.json")):
        yield Case(json.loads(path.read_text(encoding="utf-8")))
