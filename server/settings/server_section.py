"""The sections for the HTTP server: its limits, the queue of its runs, and how long it keeps data."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, SecretStr, model_validator

from ragflow_lg.server.settings.sections import AccountSection, Section


class QueueSection(Section):
    """``[queue]``: servers and ``ragflow-lg worker`` processes play runs. See ``docs/operations.md``."""

    url: SecretStr = SecretStr("")
    """A URL of Redis. Default: that of ``checkpoints``; if that is no Redis, each server plays its own runs."""
    silence_s: Annotated[float, Field(ge=0.5, le=3600)] = 1.0
    """A worker that has been silent for this long is considered dead, and others continue its runs."""


Days = Annotated[float, Field(ge=0, le=36_500)]
"""0 stands for no limit."""


class RetentionSection(Section):
    """``[retention]``: the server deletes what is older, every ten minutes."""

    session_days: Days = 0.0
    """Sessions without a turn for so long, with their messages, runs, checkpoints, traces and events, also if they wait
    for an answer."""
    file_days: Days = 0.0
    """Uploaded files and files of runs that were stored before."""


_FRAME_ORIGIN = re.compile(r"\*|https?://(\*\.)?[A-Za-z0-9.-]{1,253}(:([0-9]{1,5}|\*))?")
"""An origin as a policy (CSP) can name it."""


def _require_origin(value: str) -> str:
    if not _FRAME_ORIGIN.fullmatch(value):
        raise ValueError("not an origin: write https://shop.example or http://127.0.0.1:8000, without a path, or *")
    return value


class OtelSection(Section):
    """``[otel]``: OpenTelemetry spans for the command and ``open_runner``. Requires ``ragflow-lg[otel]``."""

    exporter: str = ""
    """Name of an installed exporter such as ``otlp_proto_http``, configured by its own variables ``OTEL_EXPORTER_…``;
    ``console`` writes to standard error; ``program`` uses the provider that the program has set globally. Default: no
    spans."""
    include_content: bool = False
    """Whether spans contain arguments, results, thoughts and errors."""


class RunSection(Section):
    """``[run]``: what runs create on the command line and in programs."""

    downloads: Path | None = None
    """Folder for the files that runs create, such as documents and artifacts of CodeExec. A server stores such files
    itself. Default: ``ragflow-lg-downloads`` on the command line; programs do not keep them."""


class UserSection(AccountSection):
    """``[server.users."EMAIL"]``: a person who may sign in to RAGFlow's front end."""

    tenant: str = "default"
    """Tenant whose agents the person works with."""

    @model_validator(mode="after")
    def _has_a_password(self) -> UserSection:
        if not self.password:
            raise ValueError("set password")
        if not self.password.problem() and len(self.password.read()) < 8:
            raise ValueError("password needs at least 8 characters")
        return self


class ServerSection(Section):
    """``[server]``: the HTTP server of ``ragflow-lg serve``."""

    host: str = "127.0.0.1"
    """Address to listen on. Addresses other than the default may expose the server to the network."""
    port: Annotated[int, Field(ge=0, le=65535)] = 9380
    """0 uses a free port."""
    database: SecretStr = SecretStr("sqlite:///ragflow-lg-server.db")
    """URL of the database of agents, sessions and keys: ``sqlite:///PATH``, ``postgresql://…``, ``mysql://…`` or
    ``mariadb://…``."""
    max_body_bytes: Annotated[int, Field(gt=0)] = 16 * 1024 * 1024
    """Largest request body. Turns, sign-ins and messages to ``/mcp`` have smaller limits, see ``docs/limits.md``."""
    allow_origins: tuple[str, ...] = ()
    """Origins whose pages may call the server from a browser (CORS); ``*`` for all."""
    frame_origins: tuple[Annotated[str, AfterValidator(_require_origin)], ...] = ()
    """Origins whose pages may show the embedded chat in a frame; ``*`` for all."""
    files: Path = Path("ragflow-lg-files")
    """Folder for uploaded files, shared by all servers that use the same database."""
    templates: Path | None = None
    """Folder of canvases (``*.json``) offered as templates in addition to the built-in ones."""
    ragflow_ui: Path | None = None
    """Folder with a build of RAGFlow's front end (``dist``) to serve, with the routes that only it needs."""
    mcp: bool = False
    """Whether the agents are tools of an MCP server at ``/mcp`` as well."""
    users: dict[str, UserSection] = Field(default_factory=dict[str, UserSection])
    """People who may sign in to that front end, by e-mail address; everybody else needs an API key."""
    drain_s: Annotated[float, Field(ge=0)] = 20.0
    """How long, at shutdown, to wait for runs to reach their next step and for responses to be sent."""
    journal: SecretStr = SecretStr("")
    """URL of the event journal, from which clients can resume: ``redis://…`` for all replicas, ``memory://`` for this
    process. Redis needs ``checkpoints`` in Redis as well. Default: the Redis server used for checkpoints, or memory."""
    on_disconnect: Annotated[str, Field(pattern=r"^(continue|cancel|grace:[0-9]{1,6}(\.[0-9]{1,3})?)$")] = "continue"
    """What happens to a run without followers: ``continue``, ``cancel`` or ``grace:SECONDS``. Requests override it."""
    busy_s: Annotated[float, Field(ge=0, le=60)] = 2.0
    """How long a turn waits for the previous one in its session: some clients send the next request too early."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses of proxies whose ``X-Forwarded-For`` names the client; ``*`` for all."""
    page_settings: bool | None = None
    """Whether the tenant that owns the settings may add providers, keys, MCP servers and datasets on the page. Default:
    yes if only this machine reaches the server, that is, it listens on a loopback address and has no
    ``trusted_proxies``."""
    shared_links: bool = True
    """Whether the owner of a conversation may make a link with which others read it; with no, no such link works."""
    requests_per_minute: Annotated[int, Field(ge=0)] = 0
    """Maximum number of requests per minute for each key; 0 for no limit."""
    requests_per_minute_address: Annotated[int, Field(ge=0)] = 0
    """The same limit for each IP address, regardless of keys."""
    max_runs: Annotated[int, Field(gt=0)] = 1000
    """Maximum number of concurrent runs in this process. Three quarters of them, and of those that wait, may belong to
    the same tenant."""
    max_waiting_runs: Annotated[int, Field(ge=0)] = 1000
    """How many more runs may wait for a slot, or for a worker of the queue."""
    run_wait_s: Annotated[float, Field(ge=0, le=3600)] = 30.0
    """How long a run waits for a slot before it is refused."""
    metrics_key: SecretStr = SecretStr("")
    """The bearer token with which a collector can read ``/metrics``. Default: nobody can."""
    metrics_address: str = ""
    """The address on which metrics can be read without a key, such as ``127.0.0.1:9390``; port 0 is a free one."""
    log_format: Literal["text", "json"] = "text"
    """Format of the log written to standard error."""
    log_level: Literal["debug", "info", "warning", "error"] = "warning"
    """Lowest level that is logged; ``info`` logs every request."""
    audit: Path | None = None
    """File for the audit log, in JSON Lines format: who created, changed and deleted what, and who was refused."""

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches the server, as far as the settings tell."""
        is_loopback = self.host in ("localhost", "::1") or self.host.startswith("127.")
        return is_loopback and not self.trusted_proxies

    @property
    def accepts_settings(self) -> bool:
        """Whether the page may add to the settings."""
        return self.is_local if self.page_settings is None else self.page_settings

    @model_validator(mode="after")
    def _has_key_and_host(self) -> ServerSection:
        if 0 < len(self.metrics_key.get_secret_value()) < 16:
            raise ValueError("metrics_key needs at least 16 characters")
        if self.metrics_address and not re.fullmatch(r".+:[0-9]{1,5}", self.metrics_address):
            raise ValueError('metrics_address needs a host and a port, such as "127.0.0.1:9390"')
        return self
