"""The behaviours in which a canvas can follow RAGFlow exactly, where ragflow-lg differs by default.

The settings (``[compat]``) choose them for a deployment, the canvas (``"compat"``) for itself. ``docs/fidelity.md`` has
a row for each of them, and the compiler reports canvases whose results may depend on one. The same places choose the
RAGFlow whose HTTP API clients get.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple, cast

from msgspec import Struct, structs

from ragflow_lg.base.lenient_values import as_map

ALL = "all"
"""The name that stands for all behaviours."""

RAGFLOW = "ragflow"
"""The name of the RAGFlow whose HTTP API clients get. Instead of a map, the text stands for all behaviours."""

WIRES = ("0.27", "1.0")
"""The RAGFlows whose HTTP API a server speaks. The first one is the default."""

OLD_SHAPES = "0.24"
"""The responses of 0.25.0 and older."""
LONG_PAGES = "0.25.1"
"""The responses of 0.27, but pages of any length."""
_SINCE = (((0, 0, 0), OLD_SHAPES), ((0, 25, 1), LONG_PAGES), ((0, 26, 0), WIRES[0]), ((1, 0, 0), WIRES[1]))
_RELEASE = re.compile(r"v?([01])\.(\d{1,3})(?:\.(\d{1,3}))?(?:-?(?:a|b|rc|alpha|beta|dev)\.?\d{0,3})?", re.ASCII)


def find_wire(release: Any) -> str:
    """Return the responses that clients of a release of RAGFlow expect, or ``""`` if it is no release.

    Without a third number, the newest patch is meant.

    >>> [find_wire(each) for each in ("v1.0.0-rc3", "0.26.4", "0.25", "0.25.0", "0.20.5", "1", "2.0")]
    ['1.0', '0.27', '0.25.1', '0.24', '0.24', '', '']
    """
    match = _RELEASE.fullmatch(release) if isinstance(release, str) else None
    numbers = tuple(int(number or 999) for number in match.groups()) if match else ()
    return [wire for since, wire in _SINCE if since <= numbers][-1] if numbers else ""


MAX_NAME_CHARS = 80
"""Maximum length of a name for which similar names are searched. A canvas may be hostile."""


class Compatibility(Struct, frozen=True):
    """Which of RAGFlow's behaviours apply."""

    ragflow: str = ""
    """One of `WIRES`, or ``""`` if nobody has chosen."""
    jinja_text: bool = False
    """Values in the Jinja templates of Messages are text."""
    unchecked_answers: bool = False
    """A structured answer is whatever JSON the model's answer contains."""
    unchecked_forms: bool = False
    """A waiting form accepts every answer; missing fields are null."""
    repeat_shown_text: bool = False
    """A model that fails after showing text is called again, and its new answer is appended."""
    skip_unconditional_loops: bool = False
    """A Loop without conditions ends before its first round, unless its conditions are joined by ``or``."""
    skip_unread_models: bool = False
    """A model whose answer no other node reads is not called, if a Message follows it."""
    old_values: bool = False
    """Values and texts are what RAGFlow makes of them, accidents included; see `ragflow_lg.dsl.old_values`."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the behaviours that apply."""
        return tuple(name for name in BEHAVIOURS if getattr(self, name))

    def override(self, choices: Mapping[str, bool | str]) -> Compatibility:
        """Return these behaviours with other choices. A single name takes precedence over ``all``.

        >>> Compatibility().override({"jinja_text": False, "all": True}).jinja_text
        False
        """
        every = dict.fromkeys(BEHAVIOURS, choices[ALL]) if ALL in choices else {}
        single = {name: value for name, value in choices.items() if name != ALL}
        return structs.replace(self, **{**every, **single})


BEHAVIOURS = tuple(name for name in Compatibility.__struct_fields__ if name != RAGFLOW)
"""The names of all behaviours."""

OPTIONS: Mapping[str, str] = {
    "differs-jinja-values": "jinja_text",
    "differs-structured-checks": "unchecked_answers",
    "differs-fillup-checked": "unchecked_forms",
    "differs-retry-after-text": "repeat_shown_text",
    "differs-loop-no-condition": "skip_unconditional_loops",
    "differs-unread-model": "skip_unread_models",
}
"""The behaviour that each diagnostic is about. After ``differs-``, a code names the row of ``docs/fidelity.md``."""


class ChoiceProblem(NamedTuple):
    """What is wrong with a choice. ``name`` is its key in the map, or ``""`` if there is no map."""

    name: str
    message: str
    hint: str


def read_choices(declared: Any) -> tuple[dict[str, bool | str], list[ChoiceProblem]]:
    """Read a canvas's ``compat``: ``"ragflow"``, or a map from names to true or false. Return its choices and problems.

    >>> read_choices("ragflow")
    ({'all': True}, [])
    >>> choices, problems = read_choices({"jinja_text": True, "jinja_txt": True})
    >>> choices, problems[0].name, problems[0].message, problems[0].hint
    ({'jinja_text': True}, 'jinja_txt', "There is no behaviour 'jinja_txt'.", "Did you mean 'jinja_text'?")
    """
    if declared is None:
        return {}, []
    if declared == RAGFLOW:
        return {ALL: True}, []
    if not isinstance(declared, Mapping):
        problem = f'compat should be "{RAGFLOW}" or an object, not {declared!r:.80}.'
        return {}, [ChoiceProblem("", problem, _list_names())]
    choices: dict[str, bool | str] = {}
    problems: list[ChoiceProblem] = []
    names = (ALL, RAGFLOW, *BEHAVIOURS)
    for name, value in cast("Mapping[str, Any]", declared).items():
        if name not in names:
            near = get_close_matches(name[:MAX_NAME_CHARS], names, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else _list_names()
            problems.append(ChoiceProblem(name, f"There is no behaviour {name!r:.80}.", hint))
        elif name == RAGFLOW and find_wire(value) not in WIRES:
            problem = f"{name} should be {_WIRES_TEXT}, not {value!r:.80}."
            hint = f'Write "{WIRES[-1]}", in quotes. "{ALL}": true stands for all behaviours.'
            problems.append(ChoiceProblem(name, problem, hint))
        elif name == RAGFLOW:
            choices[name] = find_wire(value)
        elif not isinstance(value, bool):
            problem = f"{name} should be true or false, not {value!r:.80}."
            problems.append(ChoiceProblem(name, problem, "Write true or false, without quotes."))
        else:
            choices[name] = value
    return choices, problems


def canvas_of(template: Mapping[str, Any]) -> dict[str, Any]:
    """Return the canvas in a template, with the ``compat`` that stands beside it.

    >>> canvas_of({"title": "Parcels", "compat": "ragflow", "dsl": {"components": {}}})
    {'compat': 'ragflow', 'components': {}}
    """
    beside = {"compat": template["compat"]} if "compat" in template else {}
    return {**beside, **as_map(template.get("dsl"))}


_WIRES_TEXT = " or ".join(f'"{wire}"' for wire in WIRES)


def _list_names() -> str:
    return f'The behaviours are {", ".join(BEHAVIOURS)}; "{ALL}" stands for all of them.'
