"""Bodies and queries of RAGFlow's routes for sessions and versions."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from ragflow_lg.server.http.shared.route_schemas import Fields, Flag, Pages, Text


class SessionFilters(Pages):
    """Which sessions to list."""

    id: Annotated[str, Field(description="Only the session with this id.")] = ""
    user_id: Annotated[str, Field(description="Only sessions of this user.")] = ""
    exp_user_id: Annotated[
        str, Field(description="Only sessions with this `exp_user_id`: all on one page, with ids and names only.")
    ] = ""
    keywords: Annotated[str, Field(description="Only sessions whose messages contain this text.")] = ""
    from_date: Annotated[
        str, Field(description="Only sessions from this time on, in ISO 8601; UTC without a zone.")
    ] = ""
    to_date: Annotated[str, Field(description="Only sessions up to this time.")] = ""
    dsl: Annotated[Flag, Field(description="Whether to include the canvas of each session.")] = True
    orderby: Annotated[str, Field(description="`create_time` or `update_time`.")] = "update_time"
    desc: Annotated[str, Field(description="`false`: sort in ascending order.")] = "true"


class NewSession(Fields):
    """A session to create."""

    may_be_query = True

    name: Text = ""
    user_id: Text = ""
    exp_user_id: Annotated[Text, Field(description="Id by which `GET` finds the session. Default: `user_id`.")] = ""
    release: Flag = False


class SessionIds(Fields):
    """Sessions to delete."""

    ids: Annotated[Any, Field(description="List of ids.")] = None
    delete_all: Flag = False


class NewVersion(Fields):
    """A version to publish."""

    title: Annotated[Text, Field(description="Default: the title of the agent.")] = ""
    description: Text = ""
    dsl: Annotated[Any, Field(description="Canvas that replaces the draft before it is published.")] = None
