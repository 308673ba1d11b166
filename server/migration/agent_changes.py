"""What has happened to an agent here and on the server since the pull."""

from __future__ import annotations

from typing import Literal, TypeAlias

AgentState: TypeAlias = Literal[
    "same", "changed here", "changed there", "changed both", "new here", "new there", "deleted here", "deleted there"
]

ADVICE: dict[AgentState, str] = {
    "same": "",
    "changed here": "`ragflow-lg push` updates the server",
    "changed there": "`ragflow-lg pull` updates the file",
    "changed both": "compare, then `ragflow-lg push --force` or `ragflow-lg pull --force`",
    "new here": "`ragflow-lg push` creates it",
    "new there": "`ragflow-lg pull` fetches it",
    "deleted here": "`ragflow-lg pull` fetches it again",
    "deleted there": "delete the file, or `ragflow-lg push --force` creates it again",
}


def compare_state(pulled: str, here: str, there: str) -> AgentState:
    """Return the state of an agent from three hashes: at the pull, of the file, and on the server; ``""`` for none.

    >>> compare_state("a", "a", "b")
    'changed there'
    >>> compare_state("a", "b", "b")
    'same'
    """
    if here and there:
        if here == there:
            return "same"
        if here == pulled:
            return "changed there"
        return "changed here" if there == pulled else "changed both"
    if here:
        return "deleted there" if pulled else "new here"
    return "deleted here" if pulled else "new there"
