from __future__ import annotations

from typing import Any

from ragflow_lg.server.agents.canvas_reset import reset_canvas


def test_a_reset_removes_the_data_of_turns_only() -> None:
    canvas: dict[str, Any] = {
        "components": {"begin": {}},
        "history": [["user", "Hi"]],
        "path": ["begin"],
        "retrieval": {"chunks": []},
        "memory": [1],
        "globals": {
            "sys.query": "Hi",
            "sys.conversation_turns": 3,
            "sys.files": ["a"],
            "sys.flag": True,
            "sys.map": {"a": 1},
            "sys.nothing": None,
            "env.set": "changed",
            "env.number": 4,
            "env.list": ["a"],
            "env.gone": "x",
            "other": 1,
        },
        "variables": {
            "set": {"type": "string", "value": "as declared"},
            "number": {"type": "number", "value": None},
            "list": {"type": "array<string>"},
            "gone": "nonsense",
        },
    }
    reset = reset_canvas(canvas)
    assert {name: reset[name] for name in ("history", "path", "retrieval", "memory")} == {
        "history": [],
        "path": [],
        "retrieval": [],
        "memory": [],
    }
    assert reset["globals"] == {
        "sys.query": "",
        "sys.conversation_turns": 0,
        "sys.files": [],
        "sys.flag": False,
        "sys.map": {},
        "sys.nothing": None,
        "env.set": "as declared",
        "env.number": 0,
        "env.list": [],
        "env.gone": "",
        "other": 1,
    }
    assert canvas["path"] == ["begin"]
    assert reset_canvas({"globals": [], "components": {}})["globals"] == []
