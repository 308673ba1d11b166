"""A client of the A2A SDK, and what it sees of a task."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.types import Message, Part, Role, SendMessageRequest, StreamResponse, Task, TaskState
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Value

WIRES = [("JSONRPC", "1.0"), ("HTTP+JSON", "1.0"), ("JSONRPC", "0.3")]
"""The protocols and versions of our server."""


@asynccontextmanager
async def open_client(url: str, key: str, wire: tuple[str, str], **options: Any) -> AsyncGenerator[Client]:
    """Yield a client that speaks one protocol and version."""
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=30) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        for interface in list(card.supported_interfaces):
            if (interface.protocol_binding, interface.protocol_version) != wire:
                card.supported_interfaces.remove(interface)
        config = ClientConfig(httpx_client=http, supported_protocol_bindings=[wire[0]], **options)
        yield ClientFactory(config).create(card)


def message(*parts: Any, task: str = "", context: str = "") -> SendMessageRequest:
    """Return a message with texts, values of fields and files."""
    built = [
        part
        if isinstance(part, Part)
        else Part(text=part)
        if isinstance(part, str)
        else Part(data=ParseDict(part, Value()))
        for part in parts
    ]
    ids: Any = {"message_id": "m", "task_id": task, "context_id": context}
    return SendMessageRequest(message=Message(role=Role.ROLE_USER, parts=built, **ids))


async def send(client: Client, *parts: Any, **ids: str) -> Task:
    """Return the task that a message has begun or continued, as the client sees it at the end."""
    task = Task()
    async for each in client.send_message(message(*parts, **ids)):
        update(task, each)
    return task


def update(task: Task, each: StreamResponse) -> None:
    """Change a task as an update says."""
    match each.WhichOneof("payload"):
        case "task":
            task.CopyFrom(each.task)
        case "status_update":
            task.status.CopyFrom(each.status_update.status)
        case "artifact_update":
            change = each.artifact_update
            known = [artifact for artifact in task.artifacts if artifact.artifact_id == change.artifact.artifact_id]
            if known and change.append:
                known[0].parts.extend(change.artifact.parts)
            elif known:
                known[0].CopyFrom(change.artifact)
            else:
                task.artifacts.append(change.artifact)
        case other:
            raise AssertionError(other)


def state_of(task: Task) -> str:
    return TaskState.Name(task.status.state).removeprefix("TASK_STATE_")


def text_of(task: Task) -> str:
    return "".join(part.text for artifact in task.artifacts for part in artifact.parts)
