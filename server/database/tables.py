"""The server's tables. Every row belongs to a tenant; times are epoch milliseconds, ids 32 hexadecimal digits."""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import BigInteger, Boolean, Float, Index, Integer, MetaData, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from ragflow_lg.server.database.text_types import EncryptedText, LargeText, LineText

ID_CHARS = 32
TENANT_CHARS = 64
HASH_CHARS = 64
TITLE_CHARS = 255
NOTE_CHARS = 2000
KEY_AGENTS_CHARS = 1024
CRON_CHARS = 128
TIME_ZONE_CHARS = 64


LARGE = LargeText()


class Row(DeclarativeBase):
    """Base class of all tables."""

    metadata = MetaData(
        naming_convention={"ix": "ix_%(table_name)s_%(column_0_N_name)s", "uq": "uq_%(table_name)s_%(column_0_N_name)s"}
    )

    tenant: Mapped[str] = mapped_column(LineText(TENANT_CHARS), sort_order=-1)


class AgentRow(Row):
    """An agent. Its draft is the version with the id ``version_id``."""

    __tablename__ = "agents"
    __table_args__ = (UniqueConstraint("tenant", "canvas_category", "title_key"),)

    id: Mapped[str] = mapped_column(LineText(ID_CHARS), primary_key=True)
    title: Mapped[str] = mapped_column(LineText(TITLE_CHARS))
    title_key: Mapped[str] = mapped_column(LineText(TITLE_CHARS))
    """The title in the form used for comparisons, unique among the agents in a category."""
    version_id: Mapped[str] = mapped_column(LineText(ID_CHARS))
    description: Mapped[str] = mapped_column(LARGE, default="")
    translations: Mapped[str | None] = mapped_column(LARGE, default="")
    """Titles and descriptions by language as JSON, which the agent's file has besides the English ones."""
    avatar: Mapped[str] = mapped_column(LARGE, default="")
    canvas_type: Mapped[str] = mapped_column(LineText(64), default="")
    canvas_category: Mapped[str] = mapped_column(LineText(32), default="agent_canvas")
    permission: Mapped[str] = mapped_column(LineText(16), default="me")
    tags: Mapped[str] = mapped_column(LineText(512), default="")
    create_ms: Mapped[int] = mapped_column(BigInteger)
    update_ms: Mapped[int] = mapped_column(BigInteger)
    pause_timeout_s: Mapped[int | None] = mapped_column(Integer, default=None)
    """How long its forms wait for an answer; 0 for ever, None as the settings say."""
    pause_answer: Mapped[str] = mapped_column(LineText(16), default="")
    """What happens then, as in ``[pauses] answer``; ``""`` as the settings say."""

    @property
    def texts(self) -> Any:
        """The translations as a value."""
        return msgspec.json.decode(self.translations or "{}")


class VersionRow(Row):
    """An agent's canvas as it was at some time. A version's canvas never changes."""

    __tablename__ = "versions"
    __table_args__ = (Index(None, "tenant", "agent_id", "create_ms"),)

    id: Mapped[str] = mapped_column(LineText(ID_CHARS), primary_key=True)
    agent_id: Mapped[str] = mapped_column(LineText(ID_CHARS))
    title: Mapped[str] = mapped_column(LARGE, default="")
    description: Mapped[str] = mapped_column(LARGE, default="")
    dsl: Mapped[str] = mapped_column(LARGE)
    """The canvas as JSON."""
    is_released: Mapped[bool] = mapped_column(Boolean, default=False)
    create_ms: Mapped[int] = mapped_column(BigInteger)
    update_ms: Mapped[int] = mapped_column(BigInteger)

    @property
    def canvas(self) -> Any:
        """The canvas as a value. Whole numbers beyond 64 bits stay what they are, which they do not with orjson."""
        return msgspec.json.decode(self.dsl)


class SessionRow(Row):
    """A conversation. It uses the version it began with, unless another one is pinned."""

    __tablename__ = "sessions"
    __table_args__ = (
        Index(None, "tenant", "agent_id", "update_ms"),
        Index(None, "tenant", "agent_id", "is_pinned", "update_ms"),
        Index(None, "tenant", "conversation"),
    )

    id: Mapped[str] = mapped_column(LineText(ID_CHARS), primary_key=True)
    agent_id: Mapped[str] = mapped_column(LineText(ID_CHARS))
    version_id: Mapped[str] = mapped_column(LineText(ID_CHARS))
    user_id: Mapped[str] = mapped_column(LineText(TITLE_CHARS), default="")
    exp_user_id: Mapped[str] = mapped_column(LineText(TITLE_CHARS), default="")
    name: Mapped[str] = mapped_column(EncryptedText("sessions.name"), default="")
    source: Mapped[str] = mapped_column(LineText(16), default="agent")
    """``agent`` if created by a client, ``workflow`` by a completion without a session, ``webhook`` by a webhook call,
    ``schedule`` by a schedule."""
    conversation: Mapped[str] = mapped_column(LineText(64), default="")
    """The digest of a chat program's name for the conversation, or ``""``."""
    visitor: Mapped[str] = mapped_column(LineText(ID_CHARS), default="")
    """The visitor of an embedded page that began it, as in `read_visitor`, or ``""``."""
    tokens: Mapped[int] = mapped_column(BigInteger, default=0)
    rounds: Mapped[int] = mapped_column(Integer, default=0)
    duration_s: Mapped[float] = mapped_column(Float, default=0.0)
    errors: Mapped[str] = mapped_column(EncryptedText("sessions.errors"), default="")
    stored_bytes: Mapped[int] = mapped_column(BigInteger, default=0)
    """Bytes that its turns have written to the session store."""
    is_pinned: Mapped[bool] = mapped_column(Boolean, default=False)
    """Whether its owner wants it above the others."""
    share_digest: Mapped[str | None] = mapped_column(LineText(HASH_CHARS), default=None, index=True)
    """The digest of the token with which anybody may read its messages; None if nobody may."""
    create_ms: Mapped[int] = mapped_column(BigInteger)
    update_ms: Mapped[int] = mapped_column(BigInteger)


class MessageRow(Row):
    """A message in a session. ``number`` counts from 0."""

    __tablename__ = "messages"
    __table_args__ = (Index(None, "tenant", "run_id"),)

    session_id: Mapped[str] = mapped_column(LineText(ID_CHARS), primary_key=True)
    number: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    role: Mapped[str] = mapped_column(LineText(16))
    content: Mapped[str] = mapped_column(EncryptedText("messages.content"), default="")
    run_id: Mapped[str] = mapped_column(LineText(ID_CHARS), default="")
    reference: Mapped[str] = mapped_column(EncryptedText("messages.reference"), default="")
    """The sources that an answer cites, as written by `turn_writer.write_reference`."""
    files: Mapped[str | None] = mapped_column(EncryptedText("messages.files"), default="")
    """The files of a question, as written by `turn_writer.write_files`."""
    is_form: Mapped[bool | None] = mapped_column(Boolean, default=None)
    """Whether a user's message shows the values of a form, as in `shows_form`; None if that is not known."""
    create_ms: Mapped[int] = mapped_column(BigInteger)


class FeedbackRow(Row):
    """What a reader thinks of the answer of a run."""

    __tablename__ = "feedback"
    __table_args__ = (Index(None, "tenant", "agent_id", "update_ms"), Index(None, "tenant", "session_id"))

    run_id: Mapped[str] = mapped_column(LineText(ID_CHARS), primary_key=True)
    agent_id: Mapped[str] = mapped_column(LineText(ID_CHARS))
    session_id: Mapped[str] = mapped_column(LineText(ID_CHARS))
    rating: Mapped[str] = mapped_column(LineText(8))
    """``up`` or ``down``."""
    note: Mapped[str] = mapped_column(EncryptedText("feedback.note"), default="")
    author: Mapped[str] = mapped_column(LineText(TITLE_CHARS), default="")
    """The id of the key of the reader, or the visitor of an embedded page; ``""`` if imported."""
    create_ms: Mapped[int] = mapped_column(BigInteger)
    update_ms: Mapped[int] = mapped_column(BigInteger)


class KeyRow(Row):
    """An API key, which cannot be derived from its digest."""

    __tablename__ = "api_keys"

    id: Mapped[str] = mapped_column(LineText(ID_CHARS), primary_key=True)
    digest: Mapped[str] = mapped_column(LineText(64), unique=True)
    prefix: Mapped[str] = mapped_column(LineText(32))
    """The beginning of the key, by which it can be recognised."""
    name: Mapped[str] = mapped_column(LineText(TITLE_CHARS), default="")
    kind: Mapped[str] = mapped_column(LineText(8), default="api")
    """``api``, or ``beta`` for embedded pages."""
    compat: Mapped[str] = mapped_column(LineText(16), default="")
    """The response shapes that its clients expect (see the settings); ``""`` for the server's default."""
    create_ms: Mapped[int] = mapped_column(BigInteger)
    revoke_ms: Mapped[int] = mapped_column(BigInteger, default=0)
    """0 while the key is valid."""
    expire_ms: Mapped[int] = mapped_column(BigInteger, default=0)
    """When the key becomes invalid; 0 for never."""
    agents: Mapped[str] = mapped_column(LineText(KEY_AGENTS_CHARS), default="")
    """The ids of the agents that a beta key opens, separated by commas; ``""`` for all of the tenant."""

    def is_valid(self, now_ms: int) -> bool:
        """Return whether the key is neither revoked nor expired."""
        return not self.revoke_ms and (not self.expire_ms or self.expire_ms > now_ms)


OPEN = ("running", "drained")
"""The statuses of runs that have not ended: each is played, or goes on by itself."""
FORKED = "forked"
"""The status of a run that represents a fork of an unfinished turn, or an imported one: nobody continues it unasked."""


class RunRow(Row):
    """One run in a session. Its id is RAGFlow's ``message_id``."""

    __tablename__ = "runs"
    __table_args__ = (
        Index(None, "tenant", "session_id", "start_ms"),
        Index(None, "tenant", "agent_id", "start_ms"),
        UniqueConstraint("tenant", "request_key"),
    )

    id: Mapped[str] = mapped_column(LineText(ID_CHARS), primary_key=True)
    agent_id: Mapped[str] = mapped_column(LineText(ID_CHARS))
    version_id: Mapped[str] = mapped_column(LineText(ID_CHARS))
    session_id: Mapped[str] = mapped_column(LineText(ID_CHARS))
    status: Mapped[str] = mapped_column(LineText(16), default="running")
    error: Mapped[str] = mapped_column(EncryptedText("runs.error"), default="")
    asked: Mapped[str | None] = mapped_column(EncryptedText("runs.asked"), default="")
    """The user's question as readable text, until it is added to the messages at the end of the run."""
    is_form: Mapped[bool | None] = mapped_column(Boolean, default=None)
    """Whether that shows the values of a form; None if that is not known."""
    prompt_tokens: Mapped[int] = mapped_column(BigInteger, default=0)
    completion_tokens: Mapped[int] = mapped_column(BigInteger, default=0)
    start_ms: Mapped[int] = mapped_column(BigInteger)
    end_ms: Mapped[int] = mapped_column(BigInteger, default=0)
    lease_token: Mapped[int] = mapped_column(BigInteger, default=0)
    """Token of the lease under which the run ended; 0 before then."""
    page_key: Mapped[str] = mapped_column(LineText(ID_CHARS), default="")
    """Id of the key of the embedded page that began the run, or ``""``."""
    request_key: Mapped[str | None] = mapped_column(LineText(HASH_CHARS), default=None)
    """The hash of the ``Idempotency-Key`` of the request that began the run, if it had one."""
    request_hash: Mapped[str] = mapped_column(LineText(HASH_CHARS), default="")
    """The hash of what its user sent, ``""`` if that is not repeated, and then that of a request with a key."""
    restarts: Mapped[int] = mapped_column(Integer, default=0)
    """How often a server has continued the run after its own restart."""
    nodes: Mapped[int | None] = mapped_column(Integer, default=None)
    """How many nodes have run; None if that is not known."""


class PauseTimeoutRow(Row):
    """The time at which a session stops to wait for an answer. It may have been answered since."""

    __tablename__ = "pause_timeouts"

    session_id: Mapped[str] = mapped_column(LineText(ID_CHARS), primary_key=True)
    agent_id: Mapped[str] = mapped_column(LineText(ID_CHARS))
    run_id: Mapped[str] = mapped_column(LineText(ID_CHARS))
    """The run that waits."""
    expire_ms: Mapped[int] = mapped_column(BigInteger)
    """When its time has passed."""
    due_ms: Mapped[int] = mapped_column(BigInteger, index=True)
    """When a process looks at it; later than ``expire_ms`` while a process does."""


class UsageRow(Row):
    """What a tenant has used on one day, or the part of it for one key of embedded pages."""

    __tablename__ = "usage_days"

    tenant: Mapped[str] = mapped_column(LineText(TENANT_CHARS), primary_key=True, sort_order=-1)
    page_key: Mapped[str] = mapped_column(LineText(ID_CHARS), primary_key=True)
    """Id of the key; ``""`` in the row for the whole tenant."""
    day: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    """Days since 1970-01-01, in UTC."""
    turns: Mapped[int] = mapped_column(BigInteger, default=0)
    tokens: Mapped[int] = mapped_column(BigInteger, default=0)
    micro_cost: Mapped[int] = mapped_column(BigInteger, default=0)
    """Millionths of the currency of the prices in the settings."""


class FileRow(Row):
    """A file uploaded for an agent or created by a run. Its content is stored elsewhere, under its id."""

    __tablename__ = "files"
    __table_args__ = (Index(None, "tenant", "agent_id"),)

    id: Mapped[str] = mapped_column(LineText(ID_CHARS), primary_key=True)
    agent_id: Mapped[str] = mapped_column(LineText(ID_CHARS), default="")
    name: Mapped[str] = mapped_column(LineText(TITLE_CHARS))
    mime_type: Mapped[str] = mapped_column(LineText(TITLE_CHARS), default="")
    size_bytes: Mapped[int] = mapped_column(BigInteger, default=0)
    create_ms: Mapped[int] = mapped_column(BigInteger)
    page_key: Mapped[str] = mapped_column(LineText(ID_CHARS), default="")
    """Id of the key of the embedded page that uploaded the file, or ``""``."""
    visitor: Mapped[str] = mapped_column(LineText(ID_CHARS), default="")
    """The visitor of an embedded page that uploaded it, or whose session created it; ``""`` if it is the owner's."""
    expire_ms: Mapped[int] = mapped_column(BigInteger, default=0, index=True)
    """When the file is deleted, or 0 for never."""


class WebhookBucketRow(Row):
    """The token bucket that limits calls to an agent's webhook."""

    __tablename__ = "webhook_buckets"

    agent_id: Mapped[str] = mapped_column(LineText(ID_CHARS), primary_key=True)
    micro_tokens: Mapped[int] = mapped_column(BigInteger)
    """Millionths of calls."""
    update_ms: Mapped[int] = mapped_column(BigInteger)


class WebhookDeliveryRow(Row):
    """A call to an agent's webhook that is not accepted again."""

    __tablename__ = "webhook_deliveries"
    __table_args__ = (Index(None, "tenant", "agent_id", "expire_ms"),)

    agent_id: Mapped[str] = mapped_column(LineText(ID_CHARS), primary_key=True)
    digest: Mapped[str] = mapped_column(LineText(64), primary_key=True)
    """The digest of its signature or of its token's id."""
    expire_ms: Mapped[int] = mapped_column(BigInteger)
    """When it may be forgotten."""


class WebhookTestRow(Row):
    """A test call to a webhook that its owner is watching."""

    __tablename__ = "webhook_tests"
    __table_args__ = (Index(None, "tenant", "agent_id", "start_us"),)

    id: Mapped[str] = mapped_column(LineText(ID_CHARS), primary_key=True)
    agent_id: Mapped[str] = mapped_column(LineText(ID_CHARS))
    start_us: Mapped[int] = mapped_column(BigInteger)
    """Epoch microseconds."""


class WebhookEventRow(Row):
    """An event in a webhook test. ``number`` counts from 0."""

    __tablename__ = "webhook_events"

    test_id: Mapped[str] = mapped_column(LineText(ID_CHARS), primary_key=True)
    number: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    at_us: Mapped[int] = mapped_column(BigInteger)
    """Epoch microseconds, always later than the previous event's."""
    event: Mapped[str] = mapped_column(EncryptedText("webhook_events.event"))
    """The event as JSON."""


class TenantSettingsRow(Row):
    """What a tenant has added to the settings on the page, as JSON."""

    __tablename__ = "tenant_settings"

    tenant: Mapped[str] = mapped_column(LineText(TENANT_CHARS), primary_key=True)
    settings: Mapped[str] = mapped_column(EncryptedText("tenant_settings.settings"))


class ScheduleRow(Row):
    """Times at which turns of an agent start by themselves. ``request`` is JSON: ``query`` and ``inputs``."""

    __tablename__ = "schedules"
    __table_args__ = (Index(None, "tenant", "agent_id", "create_ms"),)

    id: Mapped[str] = mapped_column(LineText(ID_CHARS), primary_key=True)
    agent_id: Mapped[str] = mapped_column(LineText(ID_CHARS))
    cron: Mapped[str] = mapped_column(LineText(CRON_CHARS))
    time_zone: Mapped[str] = mapped_column(LineText(TIME_ZONE_CHARS))
    name: Mapped[str] = mapped_column(LineText(TITLE_CHARS), default="")
    """Name of the sessions that it starts."""
    version: Mapped[str] = mapped_column(LineText(ID_CHARS), default="")
    """As in `find_version`."""
    request: Mapped[str] = mapped_column(EncryptedText("schedules.request"))
    due_ms: Mapped[int] = mapped_column(BigInteger, index=True)
    """The next start. While a process starts a turn: when another process may try."""
    run_id: Mapped[str] = mapped_column(LineText(ID_CHARS), default="")
    """The id of the run that is being started; ``""`` otherwise. A second attempt starts the same run."""
    last_run_id: Mapped[str] = mapped_column(LineText(ID_CHARS), default="")
    """The last run that was started."""
    error: Mapped[str] = mapped_column(EncryptedText("schedules.error"), default="")
    """Why the last start was refused, or ``""``."""
    create_ms: Mapped[int] = mapped_column(BigInteger)
