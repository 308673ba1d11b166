"""An agent of another server, made with the A2A SDK: the text of a message says what it does."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Message, Part, Role, Task, TaskStatus
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Value
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.responses import Response

from ragflow_lg.server.http.edge.uvicorn_server import open_socket, start_server

FORM = {"type": "object", "properties": {"size": {"type": "integer"}}}


class RemoteAgent(AgentExecutor):
    """Does what a message says, and remembers what happened."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.cancelled: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.fails: list[str] = []
        """Methods whose next requests are answered by 503, and ``cut`` for a stream that is cut while a task works."""
        self.address = ""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Do what the message says."""
        assert context.task_id
        assert context.context_id
        text = context.get_user_input()
        self.texts.append(text)
        ids: Any = {"id": context.task_id, "context_id": context.context_id}
        if text == "message":
            await event_queue.enqueue_event(Message(message_id="1", role=Role.ROLE_AGENT, parts=[Part(text="Hello!")]))
            return
        if context.current_task is None:
            await event_queue.enqueue_event(Task(status=TaskStatus(state="TASK_STATE_SUBMITTED"), **ids))
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)

        def says(words: str, *more: Part) -> Message:
            return updater.new_agent_message([Part(text=words), *more])

        match text:
            case "form":
                await updater.requires_input(says("Which size?", Part(data=ParseDict(FORM, Value()))))
            case "fail":
                await updater.failed(says("The printer\nis on fire."))
            case "login":
                await updater.requires_auth(says("Log in."))
            case "work":
                for step in ("Reading", "Writing"):
                    await updater.start_work(says(step))
                    await asyncio.sleep(0.05)
                await updater.add_artifact([Part(text="A ")], artifact_id="a")
                await updater.add_artifact([Part(text="book")], artifact_id="a", append=True)
                await updater.add_artifact([Part(raw=b"page", filename="p.txt", media_type="text/plain")])
                await updater.complete()
            case "endless":
                while True:
                    await updater.start_work(says("Still here"))
                    await asyncio.sleep(0.02)
            case "flood":
                for number in count():
                    await updater.add_artifact([Part(text="x" * 1_500_000)], artifact_id="a", append=number > 0)
                    await asyncio.sleep(0.01)
            case "many":
                for number in range(20):
                    await updater.add_artifact([Part(text="x")], artifact_id=str(number))
                await updater.complete()
            case "numbers":
                numbers = {"order": 42, "large": 9007199254740993, "half": 0.5}
                await updater.add_artifact([Part(data=ParseDict(numbers, Value()))])
                await updater.complete()
            case "large":
                await updater.add_artifact([Part(text="x" * 4_500_000)])
            case _:
                await updater.add_artifact([Part(text=f"You said {text}")])
                await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Stop a task."""
        assert context.task_id
        assert context.context_id
        self.cancelled.append(context.task_id)
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


@asynccontextmanager
async def remote_agent(
    interfaces: list[tuple[str, str]], *, streaming: bool = True, card: Any = None
) -> AsyncGenerator[RemoteAgent]:
    """Yield a running agent that speaks some protocols and versions. ``card`` replaces the body of its card."""
    agent, socket = RemoteAgent(), open_socket("127.0.0.1", 0)
    shown = AgentCard(
        name="Printer",
        description="Prints.",
        version="1",
        supported_interfaces=[  # as an agent that does not know its proxy: nobody is reached at this address
            AgentInterface(url="https://printer.internal/rpc", protocol_binding=kind, protocol_version=version)
            for kind, version in interfaces
        ],
        capabilities=AgentCapabilities(streaming=streaming),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="print", name="Print", description="Prints.", tags=["print"])],
    )
    handler: Any = DefaultRequestHandler(agent_executor=agent, task_store=InMemoryTaskStore(), agent_card=shown)
    routes = [
        *create_agent_card_routes(shown),
        *create_jsonrpc_routes(handler, "/rpc", enable_v0_3_compat=True),
        *create_rest_routes(handler, path_prefix="/rpc", enable_v0_3_compat=True),
    ]

    async def note(request: Any, call_next: Any) -> Response:
        agent.headers.append(dict(request.headers))
        if card is not None and request.url.path.endswith("agent-card.json"):
            return Response(card, media_type="application/json")
        body = await request.body()
        asked = request.url.path.encode() + body
        if failing := next((each for each in agent.fails if each.encode() in asked), ""):
            agent.fails.remove(failing)
            return Response(status_code=503)
        answer = await call_next(request)
        answer.body_iterator = cut(answer.body_iterator)
        return answer

    async def cut(chunks: Any) -> AsyncGenerator[bytes]:
        async for chunk in chunks:
            yield chunk
            if "cut" in agent.fails and b"WORKING" in chunk:
                agent.fails.remove("cut")
                raise ConnectionError

    app = Starlette(routes=routes, middleware=[Middleware(BaseHTTPMiddleware, dispatch=note)])

    async def drain() -> None:
        await asyncio.sleep(0)

    async with start_server(app, socket, drain, 1) as agent.address:
        yield agent
