"""Rows for tests, with defaults for all columns."""

from typing import Any

from ragflow_lg.server.database.tables import AgentRow, MessageRow, ScheduleRow, SessionRow, VersionRow


def agent(id_: str = "a1", title: str = "Helper", version: str = "v1", **values: Any) -> AgentRow:
    return AgentRow(
        **{"id": id_, "title": title, "title_key": title.casefold(), "version_id": version}
        | {"canvas_category": "agent_canvas", "create_ms": 1, "update_ms": 1}
        | values
    )


def version(id_: str = "v1", agent_id: str = "a1", **values: Any) -> VersionRow:
    defaults = {"id": id_, "agent_id": agent_id, "dsl": "{}", "is_released": False, "create_ms": 1, "update_ms": 1}
    return VersionRow(**defaults | values)


def session(id_: str = "s1", agent_id: str = "a1", **values: Any) -> SessionRow:
    defaults = {"id": id_, "agent_id": agent_id, "version_id": "v1", "tokens": 0, "rounds": 0, "duration_s": 0.0}
    return SessionRow(**defaults | {"create_ms": 1, "update_ms": 1} | values)


def message(session_id: str, content: str, role: str = "assistant", number: int = 0) -> MessageRow:
    return MessageRow(session_id=session_id, number=number, role=role, content=content, create_ms=1)


def schedule(id_: str = "s1", agent_id: str = "a1", **values: Any) -> ScheduleRow:
    defaults: dict[str, Any] = {"id": id_, "agent_id": agent_id, "cron": "0 9 * * *", "time_zone": "UTC"}
    defaults |= {"request": '{"query": "Hi", "inputs": {}}', "due_ms": 1, "create_ms": 1}
    return ScheduleRow(**defaults | values)
