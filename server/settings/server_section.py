"""The section of the HTTP server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr, model_validator

from ragflow_lg.server.settings.section import Section

__all__ = ["ServerSection"]


class ServerSection(Section):
    """``[server]``: the HTTP server of ``ragflow-lg serve``."""

    host: str = "127.0.0.1"
    """Address to listen at; others than the default open the server to the network."""
    port: Annotated[int, Field(ge=0, le=65535)] = 9380
    """0 takes a free one."""
    database: SecretStr = SecretStr("sqlite:///ragflow-lg-server.db")
    """URL of agents, sessions and keys: ``sqlite:///PATH``, ``postgresql://…``, ``mysql://…`` or ``mariadb://…``."""
    compat: Literal["current", "0.24"] = "current"
    """Shapes of lists and answers: RAGFlow's present ones, or those up to 0.25.0. A key or the header
    ``X-RAGFlow-Compat`` may say otherwise."""
    max_body_bytes: Annotated[int, Field(gt=0)] = 16 * 1024 * 1024
    """Largest body of a request."""
    allow_origins: tuple[str, ...] = ()
    """Origins whose pages may call the server from a browser (CORS); ``*`` for all."""
    files: Path = Path("ragflow-lg-files")
    """Folder of uploaded files; several servers of one database share it."""
    max_files: Annotated[int, Field(ge=0)] = 10_000
    """How many files a tenant may have."""
    max_files_bytes: Annotated[int, Field(ge=0)] = 1024**3
    """How large the files of a tenant may be together."""
    templates: Path | None = None
    """Folder of canvases (``*.json``) that are offered as templates beside the built-in ones."""
    drain_s: Annotated[float, Field(ge=0)] = 20.0
    """How long runs may take to their next step, and answers to be sent, once the server is told to stop."""
    journal: SecretStr = SecretStr("")
    """URL of the events of runs that clients may come back for: ``redis://…`` for all replicas, ``memory://`` for this
    process. Not set, it is the Redis of the checkpoints, or memory where these are elsewhere."""
    events_kept_s: Annotated[float, Field(gt=0, le=86400)] = 300.0
    """How long the events of a run are kept behind its end."""
    on_disconnect: Annotated[str, Field(pattern=r"^(continue|cancel|grace:[0-9]{1,6}(\.[0-9]{1,3})?)$")] = "continue"
    """What becomes of a run that nobody follows any more: ``continue``, ``cancel`` or ``grace:SECONDS``. A request may
    say otherwise."""
    busy_s: Annotated[float, Field(ge=0, le=60)] = 2.0
    """For how long a turn waits for the one before it in its session: some clients ask on before that has let go."""
    heartbeat_s: Annotated[float, Field(ge=0, le=3600)] = 15.0
    """After so long without an event a stream gets a comment, for the proxies on its way; 0 for none."""
    replica_silence_s: Annotated[float, Field(ge=0.3, le=3600)] = 15.0
    """A replica that has not been heard of for so long is taken for dead, and others go on with its runs."""
    header_timeout_s: Annotated[float, Field(gt=0, le=3600)] = 10.0
    """How long a client may take to send the head of a request."""
    body_timeout_s: Annotated[float, Field(gt=0, le=86400)] = 60.0
    """How long it may take to send the body."""
    max_header_bytes: Annotated[int, Field(ge=1024, le=1024 * 1024)] = 32 * 1024
    """Largest head of a request."""
    webhook_sessions: Annotated[int, Field(ge=0)] = 10_000
    """How many sessions of calls an agent's webhook keeps, about; the oldest go. 0 keeps all."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses of proxies whose ``X-Forwarded-For`` says who asks; ``*`` for all."""
    requests_per_minute: Annotated[int, Field(ge=0)] = 0
    """How many requests a key may make in a minute; 0 for any number."""
    requests_per_minute_address: Annotated[int, Field(ge=0)] = 0
    """The same for an address, whatever its keys."""
    max_runs: Annotated[int, Field(gt=0)] = 1000
    """How many runs this process plays at the same time."""
    max_runs_tenant: Annotated[int, Field(ge=0)] = 0
    """How many of them may be one tenant's; 0 for all."""
    max_waiting_runs: Annotated[int, Field(ge=0)] = 1000
    """How many more may wait for a place."""
    run_wait_s: Annotated[float, Field(ge=0, le=3600)] = 30.0
    """How long a run waits for a place before it is refused."""
    metrics: Literal["off", "key", "port"] = "off"
    """Who may read ``/metrics``: nobody, whoever has ``metrics_key``, or whoever reaches ``metrics_port``."""
    metrics_key: SecretStr = SecretStr("")
    """What the collector sends as bearer token."""
    metrics_host: str = "127.0.0.1"
    metrics_port: Annotated[int, Field(ge=0, le=65535)] = 9390
    """Where metrics are read without a key; 0 takes a free port."""
    log_format: Literal["text", "json"] = "text"
    """Shape of the log on standard error."""
    log_level: Literal["debug", "info", "warning", "error"] = "warning"
    """What is logged; ``info`` has a line for every request."""
    audit: Path | None = None
    """File to which it is added who made, changed, deleted what, and who was refused, as JSON lines."""

    @model_validator(mode="after")
    def _has_a_key(self) -> ServerSection:
        if self.metrics == "key" and len(self.metrics_key.get_secret_value()) < 16:
            raise ValueError('metrics = "key" needs a metrics_key of 16 characters or more')
        return self
