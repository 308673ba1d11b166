"""The tasks of A2A clients: the turns of an agent's sessions.

A context is a session, and a task the runs of one turn: the first one, and those that continue it after the answer to a
form. Nothing else is stored. The SDK's own handlers would keep tasks a second time, in the process that began them.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import aclosing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from a2a.server.context import ServerCallContext
from a2a.server.request_handlers.request_handler import (
    RequestHandler,
    validate_request_params,  # pyright: ignore[reportUnknownVariableType]
)
from a2a.server.routes.common import DefaultServerCallContextBuilder
from a2a.types import (
    AgentCard,
    CancelTaskRequest,
    GetExtendedAgentCardRequest,
    GetTaskRequest,
    ListTasksRequest,
    ListTasksResponse,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from a2a.utils.errors import (
    A2AError,
    InternalError,
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from a2a.utils.task import apply_history_length, validate_history_length
from google.protobuf.timestamp_pb2 import Timestamp
from starlette.requests import ClientDisconnect, Request

from ragflow_lg.base.errors import BusyError, RagflowLgError, RequestError, ServiceError, StreamError
from ragflow_lg.base.json_scanner import parse_foreign_json
from ragflow_lg.dsl.forms import form_schema
from ragflow_lg.integrations.a2a.agent_cards import describe_agent
from ragflow_lg.integrations.a2a.agent_parts import (
    MAX_FILE_BYTES,
    RunArtifact,
    Sent,
    Updates,
    agent_message,
    data_part,
    read_message,
    text_part,
    to_struct,
)
from ragflow_lg.runs.graph_input import check_begin
from ragflow_lg.runs.pauses import find_only_field
from ragflow_lg.runs.wire.wire_events import WireNodeStarted
from ragflow_lg.server.agents.agent_versions import find_version
from ragflow_lg.server.agents.file_store import file_store
from ragflow_lg.server.database.session_repository import RunRepository
from ragflow_lg.server.http.native.problem_details import to_problem
from ragflow_lg.server.http.shared.auth import ApiCaller, get_app_state, get_turns
from ragflow_lg.server.http.shared.event_stream import await_while_connected
from ragflow_lg.server.runs.run_control import RunControl
from ragflow_lg.server.runs.turn_session import TurnSession
from ragflow_lg.server.streaming.run_task import CONTINUE
from ragflow_lg.server.streaming.sse import event_id

if TYPE_CHECKING:
    from ragflow_lg.component.state import TurnRequest
    from ragflow_lg.runs.pauses import Pause
    from ragflow_lg.runs.wire.wire_events import WireEvent
    from ragflow_lg.server.database.tables import AgentRow, RunRow
    from ragflow_lg.server.runs.turns import Turn

MAX_ID_CHARS = 64
STATES: Mapping[str, TaskState] = {
    "running": TaskState.TASK_STATE_WORKING,
    "interrupted": TaskState.TASK_STATE_WORKING,  # a server continues it
    "answered": TaskState.TASK_STATE_CANCELED,  # given up, since no run of the task has followed
    "waiting": TaskState.TASK_STATE_INPUT_REQUIRED,
    "succeeded": TaskState.TASK_STATE_COMPLETED,
    "failed": TaskState.TASK_STATE_FAILED,
    "cancelled": TaskState.TASK_STATE_CANCELED,
    "refused": TaskState.TASK_STATE_REJECTED,
}
"""The states of tasks by those of their last runs."""
_OPEN = (TaskState.TASK_STATE_WORKING, TaskState.TASK_STATE_INPUT_REQUIRED)
_EVENT = "event"
"""The metadata of an update: the number of the last event of the run that it contains, as ``RUN:NUMBER``."""

logger = logging.getLogger(__name__)


class AgentCall(NamedTuple):
    """A request to one of a tenant's agents."""

    request: Request
    agent: AgentRow
    caller: ApiCaller
    address: str
    """The address of the agent, as the client has it."""

    def control(self) -> RunControl:
        """Return the control of the agent's runs. They go on when a client disconnects."""
        return RunControl(get_app_state(self.request), get_turns(self.request), self.agent, CONTINUE)

    async def card(self) -> AgentCard:
        """Return the whole card of the agent.

        Raises:
            CompileError: if its canvas has errors.
        """
        version = await find_version(get_app_state(self.request).database, self.agent, "")
        plan = (await get_turns(self.request).canvases.compile(version)).plan
        return describe_agent(self.agent, version, plan, self.address)

    async def store(self, sent: Sent) -> list[dict[str, Any]]:
        """Store the files of a message, and return them as a turn names them."""
        app_state = get_app_state(self.request)
        store, files = file_store(app_state, self.caller.tenant), list[dict[str, Any]]()
        for file in sent.files:
            place = (app_state.new_id(), file.name, file.mime_type, file.content, app_state.now_ms(), self.agent.id)
            row = await store.save(*place)
            files.append({"id": row.id, "name": row.name, "mime_type": row.mime_type, "size": row.size_bytes})
        return files


class CallBuilder(DefaultServerCallContextBuilder):
    """Gives the handler the `AgentCall` of a request."""

    def build(self, request: Request) -> ServerCallContext:
        """Return the context of a request."""
        context = super().build(request)
        context.state["call"] = request.scope["ragflow_lg.a2a"]
        return context


class _Task:
    """The runs of a task, oldest first."""

    def __init__(self, call: AgentCall, id_: str, runs: list[RunRow]) -> None:
        self.call = call
        self.id = id_
        self.runs = runs
        self._room_bytes = MAX_FILE_BYTES
        """How many bytes of files may still be sent with it."""

    @property
    def last(self) -> RunRow:
        """The run that represents the state of the task."""
        return self.runs[-1]

    @property
    def ids(self) -> dict[str, str]:
        """The fields of all updates."""
        return {"task_id": self.id, "context_id": self.last.session_id}

    async def status(self) -> TaskStatus:
        """Return the state of the task, with the form that it waits at or the error that has ended it."""
        control = self.call.control()
        run = self.runs[-1] = await control.run(self.last.id)
        state = STATES[await control.state(run)]
        parts: list[Part] = []
        metadata: dict[str, Any] = {}
        if state == TaskState.TASK_STATE_INPUT_REQUIRED:
            parts = _describe_forms(await control.pauses(await control.session(run.session_id)))
        elif state in (TaskState.TASK_STATE_FAILED, TaskState.TASK_STATE_REJECTED):
            parts = [text_part(run.error or "The run failed.")]
            metadata = {"code": "run-failed" if state == TaskState.TASK_STATE_FAILED else "run-refused"}
        elif state == TaskState.TASK_STATE_WORKING and await control.queue_position(run):
            state = TaskState.TASK_STATE_SUBMITTED
        status = TaskStatus(state=state, timestamp=_time(run.end_ms or run.start_ms))
        if parts:
            message = agent_message(f"{run.id}:status", parts, self.ids)
            message.metadata.CopyFrom(to_struct(metadata))
            status.message.CopyFrom(message)
        return status

    async def show(self) -> Task:
        """Return the task with the artifacts of the runs that have ended, and the messages."""
        control, status = self.call.control(), await self.status()
        messages, _ = await control.outcome(self.last)
        ids = {run.id for run in self.runs}
        task = Task(id=self.id, context_id=self.last.session_id, status=status)
        for row in messages:
            if row.run_id in ids and row.content:
                role = Role.ROLE_USER if row.role == "user" else Role.ROLE_AGENT
                task.history.append(agent_message(f"{row.run_id}:{row.role}", [text_part(row.content)], self.ids, role))
        answers = {row.run_id: row.content for row in messages if row.role == "assistant"}
        for run in self.runs:
            if run.id in answers and (artifact := await self._artifact(run, answers[run.id])) is not None:
                task.artifacts.append(artifact)
        return task

    async def _artifact(self, run: RunRow, text: str) -> Any:
        """Return what a run that has ended has shown. Its files are known as long as its events."""
        artifact = RunArtifact(run.id, self.ids)
        if run.status == "waiting":
            text = ""  # the stored answer may be the text of the form
        with suppress(RagflowLgError):
            async with aclosing(self._pages(run)) as pages:
                async for page in pages:
                    artifact.feed([event for _, event in page])
        text = "" if artifact.answer.form is not None else text  # also before the run is stored as waiting
        return artifact.whole(artifact.answer.text or text, await self._load(artifact.files))

    async def _load(self, files: list[dict[str, Any]]) -> list[Part]:
        """Return files that a run offers as parts. Those without room are addresses, which want the key."""
        call, app_state, parts = self.call, get_app_state(self.call.request), list[Part]()
        store = file_store(app_state, call.caller.tenant)
        for id_ in dict.fromkeys(str(file.get("doc_id", "")) for file in files):
            row = await store.find_valid(id_, app_state.now_ms())
            if row is None or not call.caller.opens(row.agent_id):
                continue
            named: Any = {"filename": row.name, "media_type": row.mime_type}
            if row.size_bytes <= self._room_bytes:
                self._room_bytes -= row.size_bytes
                parts.append(Part(raw=await store.content(row), **named))
            else:
                origin = call.address.removesuffix(f"/a2a/{call.agent.id}")
                parts.append(Part(url=f"{origin}/api/v1/files/{row.id}", **named))
        return parts

    async def wait(self) -> None:
        """Wait until the last run has ended, or its events have. The state says how."""
        with suppress(RagflowLgError):
            async with aclosing(self._pages(self.last)) as pages:
                async for _ in pages:
                    pass

    def _pages(self, run: RunRow) -> AsyncGenerator[list[tuple[int, WireEvent]]]:
        pages = get_turns(self.call.request).run_manager.pages(run.id, has_records=False)
        return cast("AsyncGenerator[list[tuple[int, WireEvent]]]", pages)

    async def follow(self, after: int = 0) -> Updates:
        """Yield the updates of the last run after an event, and its end."""
        run = self.last
        artifact = RunArtifact(run.id, self.ids)
        try:
            async with aclosing(self._pages(run)) as pages:
                async for page in pages:
                    artifact.feed([event for number, event in page if number <= after])
                    new = [event for number, event in page if number > after]
                    last = event_id(run.id, page[-1][0]) if page else ""
                    for update in self._updates(artifact, new, last):
                        update.metadata.CopyFrom(to_struct({_EVENT: last}))
                        yield update
        except StreamError as error:  # clients subscribe again
            logger.info("The events of the run %s end: %s", run.id, error)
            if await self.call.control().state(run) in ("running", "interrupted"):
                return
        except RagflowLgError as error:  # the state says it
            logger.info("The run %s has failed: %s", run.id, error)
        if (last := artifact.end(await self._load(artifact.files))) is not None:
            yield last
        yield self._update_status(await self.status())

    def _update_status(self, status: TaskStatus) -> TaskStatusUpdateEvent:
        return TaskStatusUpdateEvent(task_id=self.id, context_id=self.last.session_id, status=status)

    def _updates(self, artifact: RunArtifact, events: list[WireEvent], event: str) -> Generator[Any]:
        started = [event for event in events if isinstance(event, WireNodeStarted)]
        if started:
            parts = [text_part(started[-1].component_name or started[-1].component_id)]
            status = TaskStatus(
                state=TaskState.TASK_STATE_WORKING,
                message=agent_message(event, parts, self.ids),
                timestamp=_time(started[-1].created_at * 1000),
            )
            yield self._update_status(status)
        if (update := artifact.feed(events)) is not None:
            yield update


class AgentTasks(RequestHandler):
    """Answers the requests of A2A clients."""

    @validate_request_params
    async def on_get_task(self, params: GetTaskRequest, context: ServerCallContext) -> Task:
        """Return a task."""
        validate_history_length(params)
        with _translating():
            return apply_history_length(await (await _find_task(_call(context), params.id)).show(), params)

    @validate_request_params
    async def on_list_tasks(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        """Refuse: sessions and runs are listed by the native API."""
        raise UnsupportedOperationError("Tasks are not listed. The native API lists sessions and runs.")

    @validate_request_params
    async def on_cancel_task(self, params: CancelTaskRequest, context: ServerCallContext) -> Task:
        """Stop a task, wherever it runs."""
        call = _call(context)
        with _translating():
            task = await _find_task(call, params.id)
            if (await task.status()).state not in (*_OPEN, TaskState.TASK_STATE_SUBMITTED):
                raise TaskNotCancelableError
            await call.control().cancel(task.last)
            await task.wait()
            return await task.show()

    @validate_request_params
    async def on_message_send(self, params: SendMessageRequest, context: ServerCallContext) -> Task:
        """Begin or continue a task. Return it when it has ended, waits for an answer, or at once if that is asked."""
        validate_history_length(params.configuration)
        call = _call(context)
        with _translating():
            task = await _begin(call, params)
            if not params.configuration.return_immediately:
                await await_while_connected(call.request, task.wait())
            return apply_history_length(await task.show(), params.configuration)

    @validate_request_params
    async def on_message_send_stream(self, params: SendMessageRequest, context: ServerCallContext) -> Updates:
        """Begin or continue a task, and yield it with its updates."""
        validate_history_length(params.configuration)
        with _translating():
            task = await _begin(_call(context), params)
            yield apply_history_length(await task.show(), params.configuration)
            async with aclosing(task.follow()) as updates:
                async for update in updates:
                    yield update

    @validate_request_params
    async def on_subscribe_to_task(self, params: SubscribeToTaskRequest, context: ServerCallContext) -> Updates:
        """Yield a task with its updates: all of its last run, or those after the event that ``Last-Event-ID`` names."""
        call = _call(context)
        with _translating():
            task = await _find_task(call, params.id)
            if (await task.status()).state not in (*_OPEN, TaskState.TASK_STATE_SUBMITTED):
                raise UnsupportedOperationError("The task has ended. Get it instead.")
            yield await task.show()
            run_id, _, number = call.request.headers.get("last-event-id", "").partition(":")
            is_known = run_id == task.last.id and number.isdecimal() and len(number) < MAX_ID_CHARS
            async with aclosing(task.follow(int(number) if is_known else 0)) as updates:
                async for update in updates:
                    yield update

    @validate_request_params
    async def on_get_extended_agent_card(
        self, params: GetExtendedAgentCardRequest, context: ServerCallContext
    ) -> AgentCard:
        """Return the whole card of the agent."""
        with _translating():
            return await _call(context).card()

    async def _refuse_push(self, params: Any, context: ServerCallContext) -> Any:
        raise PushNotificationNotSupportedError

    on_create_task_push_notification_config = _refuse_push
    on_get_task_push_notification_config = _refuse_push
    on_list_task_push_notification_configs = _refuse_push
    on_delete_task_push_notification_config = _refuse_push


def _call(context: ServerCallContext) -> AgentCall:
    return context.state["call"]


@contextmanager
def _translating() -> Generator[None]:
    """Turn errors into those of the protocol, with our text and code. The SDK would send the text of any other one."""
    try:
        yield
    except A2AError:
        raise
    except RagflowLgError as error:
        problem = to_problem(error)
        data: dict[str, Any] = {"code": problem.code, "status": problem.status}
        if isinstance(error, BusyError):  # the protocol has no code for what may be sent again
            raise InternalError(problem.message, {**data, "retry_s": error.retry_s}) from error
        if problem.status >= 500:
            logger.error("an A2A request failed: %s", error)
            raise InternalError(problem.message, data) from error
        raise InvalidParamsError(problem.message, data) from error
    except ClientDisconnect:
        raise InternalError("The client has disconnected.") from None
    except Exception as error:  # its text may contain secrets, so it is only logged
        logger.exception("an A2A request failed")
        raise InternalError("Internal server error; see the server log.") from error


async def _find_task(call: AgentCall, task_id: str) -> _Task:
    """Return a task of the agent.

    Raises:
        TaskNotFoundError: if there is none, or the agent or the tenant of the key has another one.
    """
    control = call.control()
    try:
        run = await control.run(task_id[:MAX_ID_CHARS])
    except RequestError:
        raise TaskNotFoundError from None
    runs = [run]
    if run.status in _CONTINUED:
        repository = RunRepository(get_app_state(call.request).database, call.caller.tenant)
        async with aclosing(repository.later(run)) as found:
            async for later in found:
                if later.status == "refused":
                    continue
                record = await control.record(runs[-1])
                if runs[-1].status not in _CONTINUED or (record is not None and record.status == "cancelled"):
                    break  # another turn
                runs.append(later)
    return _Task(call, task_id, runs)


async def _find_task_of(call: AgentCall, run: RunRow) -> _Task:
    """Return the task that a run belongs to: it begins with the first of the runs that this one continues."""
    control = call.control()
    with suppress(RequestError):  # a parent in another session may be deleted
        while (record := await control.record(run)) is not None and record.parent_run:
            parent = await control.run(record.parent_run)
            if parent.session_id != run.session_id or parent.status not in _CONTINUED:
                break
            run = parent
    return await _find_task(call, run.id)


_CONTINUED = ("waiting", "running")
"""The stored states of runs that another run in their session continues: open forms, and interruptions."""


async def _begin(call: AgentCall, params: SendMessageRequest) -> _Task:
    """Begin a task, or continue one that waits for an answer."""
    message, control, turns = params.message, call.control(), get_turns(call.request)
    sent, context_id = read_message(message), message.context_id[:MAX_ID_CHARS]
    if (repeated := await turns.find_repeated(call.agent.tenant)) is not None:
        if message.task_id:
            return await _find_task(call, message.task_id)
        return await _find_task_of(call, await control.run(repeated.envelope.message_id))
    task = await _find_task(call, message.task_id) if message.task_id else None
    if task is not None and context_id not in ("", task.last.session_id):
        raise InvalidParamsError("The task belongs to another context.")
    if task is None and context_id:
        session = await control.session(context_id)
        rows, _ = await control.runs(session.id, 1, 1)
        if rows and await control.state(rows[0]) == "waiting":
            task = await _find_task_of(call, rows[0])
    if task is not None:
        return await _answer(task, sent)
    app_state = get_app_state(call.request)
    request: TurnRequest = {"query": sent.text, "inputs": {name: {"value": v} for name, v in sent.fields.items()}}
    if context_id:
        session = TurnSession(await control.session(context_id))
    else:
        version = await find_version(app_state.database, call.agent, "")
        check_begin((await turns.canvases.compile(version)).plan, request)  # a refusal leaves no files behind
        tenant = call.agent.tenant
        session = await turns.new_session(call.agent, version, user_id=tenant, name=sent.text, source="workflow")
    if sent.files:
        if not (await turns.runner(call.agent, session.row, session.version)).plan.reads_files:
            raise RequestError("The message has a file, and no component of the agent reads files.", 101)
        request["files"] = await call.store(sent)
    request["user_id"] = session.row.user_id or call.agent.tenant
    turn = await control.start(session, request)
    return _Task(call, turn.envelope.message_id, [await control.run(turn.envelope.message_id)])


async def _answer(task: _Task, sent: Sent) -> _Task:
    """Answer the form that a task waits at."""
    control = task.call.control()
    if await control.state(task.last) != "waiting":
        raise UnsupportedOperationError("The task does not wait for an answer. Send the message with its context only.")
    pauses = await control.pauses(await control.session(task.last.session_id))
    turn: Turn = await control.resume(task.last, _read_answer(sent, pauses))
    return _Task(task.call, task.id, [*task.runs, await control.run(turn.envelope.message_id)])


def _read_answer(sent: Sent, pauses: list[Pause]) -> dict[str, Any]:
    """Return data, a text as the value of the only field, or JSON as the values of several ones.

    Raises:
        RequestError: if a part of the message would be lost.
    """
    if sent.files:
        raise RequestError("A form does not take the bytes of files: upload them, and send data that names them.", 101)
    if sent.fields and sent.text.strip():
        raise RequestError("A form is open: answer it with data or with a text, not with both.", 101)
    if sent.fields:
        return sent.fields
    if (field := find_only_field(pauses)) is not None:
        return {field[1]: sent.text}
    with suppress(ServiceError):
        values = parse_foreign_json(sent.text)
        if isinstance(values, dict):
            return cast("dict[str, Any]", values)
    if sent.text.strip():
        raise RequestError("The open form has not one field: answer it with data, or with JSON as text.", 101)
    return {}


def _describe_forms(pauses: list[Pause]) -> list[Part]:
    """Return the texts of forms, and the JSON schema of each answer."""
    texts = [pause.tips or f"The agent asks for {', '.join(pause.inputs) or 'your answer'}." for pause in pauses]
    return [text_part("\n".join(texts)), *(data_part(form_schema(pause.inputs)) for pause in pauses)]


def _time(ms: float) -> Timestamp:
    time = Timestamp()
    time.FromMilliseconds(int(ms))
    return time
