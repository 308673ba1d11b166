"""The table of the rules."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

RuleClass = Literal["breaks", "differs", "looks"]
"""What a rule means: the canvas stops working, answers differently, or only looks different to clients."""

FILES = ("breaks", "engine", "models", "data", "looks")
"""The files of the table, in the order of the report."""

SNAPSHOT = "source of 2026-08-22, before 1.0.0-rc1"


class Meets(Struct, frozen=True, forbid_unknown_fields=True):
    """A condition without code. Without components, it is met by every canvas that has nodes."""

    components: tuple[str, ...] = ()
    tools: bool = False
    """Whether tools of Agents meet it as well."""
    at: str = ""
    """The parameter where it is met, in place of the node."""
    shows: bool = False
    """Whether the value of that parameter is the detail."""
    before: str = ""
    """The component of a node that must follow."""
    when: Mapping[str, bool | str] = field(default_factory=dict[str, bool | str])
    """What parameters must be: true is any value, false none, ``*`` any text, ``""`` none, others that in any case."""


class Rule(Struct, frozen=True, forbid_unknown_fields=True, rename={"class_": "class"}):
    """A difference between the engines of RAGFlow 0.27 and 1.0, for canvases that meet its condition."""

    id: str
    class_: RuleClass
    old: str
    """What 0.27 does, as a sentence."""
    new: str
    """What 1.0 does."""
    change: str
    """What to change so that both do the same."""
    evidence: str
    """Where it was found in RAGFlow's source or notes."""
    meets: Meets | None = None
    """The condition; None if it is the function of the rule's name."""
    fix: bool = False
    """Whether ``--fix`` can make the change, without another result in 0.27 or here."""
    seen: bool = False
    """Whether it was seen when the new engine ran. Otherwise it was only read."""
    run_time: bool = False
    """Whether it depends on what happens in a run, or meets nearly every canvas; reported only with ``--all``."""
    since: str = ""
    """The first version or date for which it holds; empty if unknown."""
    until: str = ""
    """The last version or date for which it held; empty if it may still hold."""
    verified_against: str = SNAPSHOT


def _read(name: str) -> dict[str, Any]:
    folder = resources.files("ragflow_lg.dsl_compiler.ragflow_1").joinpath("rules")
    return tomllib.loads(folder.joinpath(f"{name}.toml").read_text("utf-8"))


def _read_rules() -> dict[str, Rule]:
    rules: dict[str, Rule] = {}
    for name in FILES:
        for rule in msgspec.convert(_read(name)["rule"], list[Rule]):
            assert rule.id not in rules, rule.id
            rules[rule.id] = rule
    return rules


RULES = _read_rules()
"""All rules by id, in the order of the report."""

NAMES: dict[str, Any] = _read("names")
"""Names of components, tools and parameters in RAGFlow 1.0, and what some of them must be."""
