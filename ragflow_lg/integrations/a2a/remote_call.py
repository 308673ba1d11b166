"""One call of an agent of another server. What it sends is hostile: each card, event and answer has a limit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, contextmanager, suppress
from typing import Any

import httpx
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.client.card_resolver import parse_agent_card
from a2a.types import (
    AgentCard,
    Artifact,
    CancelTaskRequest,
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    StreamResponse,
    Task,
    TaskState,
    TaskStatus,
)
from a2a.utils.constants import AGENT_CARD_WELL_KNOWN_PATH
from a2a.utils.errors import A2AError

from ragflow_lg.adapters.http.answer_limits import AnswerTooLargeError, limit_hooks
from ragflow_lg.adapters.http.http_client import USER_AGENT, GuardedHttpClient, encode_headers, parse_url
from ragflow_lg.base.errors import ForeignJsonError, ServiceError, foreign_line
from ragflow_lg.base.json_scanner import parse_foreign_json
from ragflow_lg.integrations.a2a.a2a_settings import A2aSection
from ragflow_lg.integrations.a2a.data_parts import read_data
from ragflow_lg.integrations.a2a.remote_answers import RemoteAnswer, RemoteFile, Report
from ragflow_lg.services.http import HttpRequest

MAX_CARD_BYTES = 1024 * 1024
MAX_ANSWER_BYTES = 4 * 1024 * 1024
"""Maximum size of all that an agent answers in one call."""
MAX_ARTIFACTS = 1000
MAX_FILES = 20
MAX_REASON_CHARS = 500
CARD_S = 10.0
CANCEL_S = 5.0
POLL_S = 1.0
MAX_POLL_S = 10.0
MAX_FAILED_POLLS = 3
_BINDINGS = ["JSONRPC", "HTTP+JSON"]
_DONE, _ASKS = TaskState.TASK_STATE_COMPLETED, TaskState.TASK_STATE_INPUT_REQUIRED
_OPEN = (TaskState.TASK_STATE_UNSPECIFIED, TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING)
_FAILURES = {
    TaskState.TASK_STATE_FAILED: "has failed",
    TaskState.TASK_STATE_REJECTED: "has refused the task",
    TaskState.TASK_STATE_CANCELED: "has cancelled the task",
    TaskState.TASK_STATE_AUTH_REQUIRED: "wants an authorization, which a tool cannot give",
}


class RemoteCall:
    """One message to an agent, and what it answers."""

    def __init__(self, name: str, section: A2aSection, http: GuardedHttpClient, message_id: str) -> None:
        self._name = name
        self._section = section
        self._message_id = message_id
        self._http = http
        self._url = parse_url(section.url, f"url of [a2a.{name}]")
        headers = {key: value.decode("utf-8", "replace") for key, value in encode_headers(section.all_headers())}
        self._headers = {"User-Agent": USER_AGENT, **headers}
        self._web = httpx.AsyncClient(
            transport=_GuardedTransport(http, self._url),
            headers=self._headers,
            timeout=None,
            event_hooks=limit_hooks(),
            trust_env=False,
        )
        self._client: Client | None = None
        self._received = 0
        self._task = Task()
        self._artifacts: dict[str, Artifact] = {}
        self._message: Message | None = None

    @property
    def open_task(self) -> str:
        """The id of the task if the agent works on it, else ``""``."""
        return self._task.id if self._task.status.state in _OPEN else ""

    async def read_card(self) -> AgentCard:
        """Return the card of the agent.

        Raises:
            ServiceError: if it cannot be read.
        """
        url = self._section.url.rstrip("/") + AGENT_CARD_WELL_KNOWN_PATH
        request = HttpRequest("GET", url, headers=self._headers, timeout_s=CARD_S, max_response_bytes=MAX_CARD_BYTES)
        answer = await self._http.send(request)
        if answer.status != 200:
            raise ServiceError(f"{self._where} answered {answer.status} when its card was read.")
        with self._failing():
            value: Any = parse_foreign_json(answer.text)
            return parse_agent_card(value)

    async def ask(self, text: str, task: str, report: Report) -> RemoteAnswer:
        """Send a text, report the progress of the agent, and return what it answers.

        Raises:
            ServiceError: if that fails; see `RemoteAgents`.
        """
        limit_s, last = self._section.timeout_s, ""
        try:
            async with asyncio.timeout(limit_s), aclosing(self._send(text, task)) as notes:
                async for note in notes:
                    if note not in ("", last):
                        last = note
                        await report(note)
        except TimeoutError:
            problem = f"did not answer within {limit_s:g} s (timeout_s of [a2a.{self._name}])"
            raise ServiceError(f"{self._where} {problem}.") from None
        with self._failing():
            return self._result()

    async def cancel(self) -> None:
        """Cancel the task, and close the connections. The agent has little time to answer."""
        try:
            with suppress(Exception):
                async with asyncio.timeout(CANCEL_S):
                    client = await self._connect()
                    await client.cancel_task(CancelTaskRequest(id=self._task.id))
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._web.aclose()

    async def _connect(self) -> Client:
        if self._client is None:
            card = await self.read_card()
            polls = not card.capabilities.streaming
            config = ClientConfig(httpx_client=self._web, supported_protocol_bindings=_BINDINGS, polling=polls)
            with self._failing():
                self._client = ClientFactory(config).create(card)
        return self._client

    async def _send(self, text: str, task: str) -> AsyncGenerator[str]:
        """Send the message and follow the task to its end; yield what the agent reports."""
        client = await self._connect()
        ids: Any = {"message_id": self._message_id, "task_id": task}
        message = Message(role=Role.ROLE_USER, parts=[Part(text=text.encode("utf-8", "replace").decode())], **ids)
        try:
            with self._failing():
                async for update in client.send_message(SendMessageRequest(message=message)):
                    yield self._take(update)
        except ServiceError as error:
            if not (self.open_task and error.is_retryable):
                raise
        failures, pause_s = 0, POLL_S
        while self.open_task:  # it does not stream, or the stream is cut
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 1.5, MAX_POLL_S)
            try:
                with self._failing():
                    yield self._take(StreamResponse(task=await client.get_task(GetTaskRequest(id=self._task.id))))
                failures = 0
            except ServiceError as error:
                failures += 1
                if failures == MAX_FAILED_POLLS or not error.is_retryable:
                    raise

    def _take(self, update: StreamResponse) -> str:
        """Process an update; return what it says about the progress."""
        self._received += update.ByteSize()
        kind = update.WhichOneof("payload")
        if kind == "task":
            self._received = update.ByteSize()
            self._task.CopyFrom(update.task)
            self._artifacts = {each.artifact_id: each for each in self._task.artifacts}
        elif kind == "message":
            self._message = update.message
            self._task.status.state = _DONE
        elif kind == "status_update":
            self._name_task(update.status_update.task_id)
            self._task.status.CopyFrom(update.status_update.status)
        elif kind == "artifact_update":
            self._name_task(update.artifact_update.task_id)
            self._add(update.artifact_update.artifact, is_appended=update.artifact_update.append)
        if self._received > MAX_ANSWER_BYTES:
            raise ServiceError(f"{self._where} has sent more than {MAX_ANSWER_BYTES:,} bytes.")
        return _text(self._task.status.message.parts) if self._task.status.state in _OPEN else ""

    def _name_task(self, id_: str) -> None:
        self._task.id = self._task.id or id_

    def _add(self, artifact: Artifact, *, is_appended: bool) -> None:
        known = self._artifacts.get(artifact.artifact_id)
        if known is None:
            if len(self._artifacts) >= MAX_ARTIFACTS:
                raise ServiceError(f"{self._where} has sent more than {MAX_ARTIFACTS:,} artifacts.")
            known = self._artifacts[artifact.artifact_id] = self._task.artifacts.add()
        if is_appended:
            known.MergeFrom(artifact)
        else:
            known.CopyFrom(artifact)

    def _result(self) -> RemoteAnswer:
        status: TaskStatus = self._task.status
        said = _text(status.message.parts)
        if status.state in _FAILURES:
            reason = self._quote(said)
            raise ServiceError(f"{self._where} {_FAILURES[status.state]}{f': {reason}' if reason else '.'}")
        if status.state not in (_DONE, _ASKS):
            raise ServiceError(f"{self._where} has answered neither with a message nor with a task.")
        parts = [part for artifact in self._task.artifacts for part in artifact.parts]
        if self._message is not None:
            parts = list(self._message.parts)
        answer = _text(parts)
        if status.state == _ASKS:
            parts = list(status.message.parts)
            text = "\n\n".join(filter(None, dict.fromkeys((answer, said))))  # some agents say it in both
            return RemoteAnswer("input-required", text, self._task.id, _data(parts))
        return RemoteAnswer("completed", answer or said, self._task.id, _data(parts), tuple(_files(parts)))

    def _quote(self, text: str) -> str:
        return foreign_line(text, self._section.secrets(), MAX_REASON_CHARS)

    @property
    def _where(self) -> str:
        return f"The A2A agent {self._name!r}"

    @contextmanager
    def _failing(self) -> Generator[None]:
        """Turn the errors of the SDK and of the connection into ours, which contain no address and no header."""
        try:
            yield
        except ForeignJsonError as error:
            raise ServiceError(f"The card of {self._where[0].lower()}{self._where[1:]} {error}.") from None
        except (ServiceError, TimeoutError):
            raise
        except A2AError as error:
            # What the connection has raised is the cause. The text is the agent's own unless it contains the address.
            answer = getattr(error.__cause__, "response", None)
            if isinstance(error.__cause__, httpx.HTTPError) and (answer is None or str(answer.url) in error.message):
                raise self._explain(error) from None
            is_retryable = answer is not None and answer.status_code >= 500
            problem = f"{self._where} refuses: {self._quote(error.message)}"
            raise ServiceError(problem, is_retryable=is_retryable) from None
        except Exception as error:  # noqa: BLE001 - hostile answers make the SDK raise anything
            raise self._explain(error) from None

    def _explain(self, error: Exception) -> ServiceError:
        for cause in (error, error.__cause__, error.__context__):
            match cause:
                case ServiceError():
                    return cause
                case AnswerTooLargeError():
                    return ServiceError(f"{self._where} {cause}.")
                case httpx.HTTPStatusError(response=answer):
                    problem = f"answered {answer.status_code}. Check url and api_key of [a2a.{self._name}]."
                    return ServiceError(f"{self._where} {problem}", is_retryable=answer.status_code >= 500)
                case httpx.TransportError():
                    problem = "cannot be reached, or has cut the connection."
                    return ServiceError(f"{self._where} {problem}", is_retryable=True)
                case _:
                    continue
        return ServiceError(f"{self._where} does not speak the protocol as it should ({type(error).__name__}).")


def _text(parts: Any) -> str:
    return "".join(part.text for part in parts if part.HasField("text"))


def _data(parts: Any) -> tuple[Any, ...]:
    return tuple(read_data(part.data) for part in parts if part.HasField("data"))


def _files(parts: Any) -> Generator[RemoteFile]:
    files = [part for part in parts if part.WhichOneof("content") in ("raw", "url")]
    for part in files[:MAX_FILES]:
        yield RemoteFile(part.filename or "file", part.media_type or "application/octet-stream", part.raw, part.url)


class _GuardedTransport(httpx.AsyncHTTPTransport):
    """httpx's transport over the guarded connections. It sends to the declared server, whatever the card says."""

    def __init__(self, http: GuardedHttpClient, url: httpx.URL) -> None:  # pyright: ignore[reportMissingSuperCall]
        self._pool: Any = http.open_pool(4)
        self._url = url

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request."""
        request.url = request.url.copy_with(scheme=self._url.scheme, host=self._url.host, port=self._url.port)
        request.headers["Host"] = self._url.netloc.decode("ascii")
        return await super().handle_async_request(request)
