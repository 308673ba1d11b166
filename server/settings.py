"""Settings: a TOML file, and above it environment variables ``RAGFLOW_LG_*``.

The file is the first there is of: ``--settings``, ``RAGFLOW_LG_SETTINGS``, ``./ragflow-lg.toml`` and
``~/.config/ragflow-lg/settings.toml``. A variable names its place with two underscores between the levels:
``RAGFLOW_LG_HTTP__TIMEOUT_S=30``, lists and tables as JSON. ::

    default_model = "gpt-4.1@OpenAI"

    [providers.OpenAI]
    base_url = "https://api.openai.com/v1"
    api_key_env = "OPENAI_API_KEY"

    [models."gpt-4.1@OpenAI"]
    context_tokens = 1000000
    has_vision = true

    [tools.tavily]
    api_key_env = "TAVILY_API_KEY"

    [knowledge]
    url = "sqlite:///knowledge.db"

    [embeddings."bge-m3@SILICONFLOW"]
    base_url = "https://api.siliconflow.cn/v1"
    model = "BAAI/bge-m3"
    api_key_env = "SILICONFLOW_API_KEY"

    [datasets."0f3c"]
    name = "handbook"
    tenant = "9a7e"
    embedding_model = "bge-m3@SILICONFLOW"

    [rerankers."bge-reranker-v2-m3@SILICONFLOW"]
    base_url = "https://api.siliconflow.cn/v1"
    api_key_env = "SILICONFLOW_API_KEY"

    [mcp.tickets]
    url = "https://tickets.example.com/mcp"

    [http]
    allow = ["wiki.example.com", "10.20.0.0/16:8080"]

    [agents]
    allow_tools = ["Wikipedia", "canvas:*"]

    [canvases]
    report = "canvases/report.json"

    [server]
    port = 9380
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import pydantic
import pydantic_settings
from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from ragflow_lg.adapters.chat_models import ChatModelSettings, ModelSettings, ProviderSettings
from ragflow_lg.adapters.http_client import HttpSettings
from ragflow_lg.adapters.knowledge.endpoint_embedder import EmbeddingSettings
from ragflow_lg.adapters.mcp_servers import McpServerSettings
from ragflow_lg.errors import SettingsError
from ragflow_lg.services import ToolSettings
from ragflow_lg.tool_policies import ToolPermits
from server.environment import FILE_VARIABLE, PREFIX, unknown_variables, variable_of

__all__ = [
    "AgentsSection",
    "DatasetSection",
    "EmbeddingSection",
    "HttpSection",
    "KnowledgeSection",
    "McpSection",
    "ModelSection",
    "OtelSection",
    "ProviderSection",
    "RerankerSection",
    "RunSection",
    "ServerSection",
    "Settings",
    "ToolSection",
    "load_settings",
]

_FIELD = re.compile(r'field "(\w+)"')


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class _KeySection(_Section):
    api_key: SecretStr | None = None
    api_key_env: str = ""
    """Environment variable that holds the key, in place of ``api_key``."""

    def key(self) -> SecretStr | None:
        """Give the key, or None if there is none."""
        if self.api_key is not None:
            return self.api_key
        value = os.environ.get(self.api_key_env, "") if self.api_key_env else ""
        return SecretStr(value) if value else None


def _web_address(value: str) -> str:
    text = value.strip()
    if not text.lower().startswith(("http://", "https://")):
        raise ValueError("should be a web address that begins with http:// or https://")
    return text


class ProviderSection(_KeySection):
    """``[providers.NAME]``: an endpoint, OpenAI-compatible unless ``client`` is set.

    NAME is the part after ``@`` in an ``llm_id``.
    """

    base_url: str = ""
    """Needed unless NAME is a provider whose own is known."""
    client: str = ""
    """An installed LangChain chat model, by its entry point's name in the group ``ragflow_lg.chat_models``."""
    models: tuple[str, ...] = ()
    """Models that are found here when a canvas names them without a provider."""
    timeout_s: Annotated[float, Field(gt=0)] = 600.0
    idle_timeout_s: Annotated[float, Field(gt=0)] = 120.0
    """How long a streamed answer may pause between two pieces."""
    max_retries: Annotated[int, Field(ge=0, le=20)] = 2
    """How often a call is tried again that was refused for a while (429, 5xx), as long as nothing was shown."""
    concurrency: Annotated[int, Field(gt=0)] = 64
    """How many calls may run at the same time."""
    counts_streams: bool = True
    """Whether streamed answers are asked for their usage; false for servers that refuse ``stream_options``."""


class ModelSection(_Section):
    """``[models."MODEL"]``: what differs for one model, named with or without its provider."""

    context_tokens: Annotated[int, Field(gt=0)] | None = None
    has_vision: bool | None = None
    has_tools: bool | None = None
    """Whether it calls tools; false makes an Agent describe them in its prompt."""
    has_schemas: bool | None = None
    """Whether it answers by a JSON schema itself."""
    input_price: Annotated[float, Field(ge=0)] = 0.0
    """Of a million tokens, in any currency."""
    output_price: Annotated[float, Field(ge=0)] = 0.0


class ToolSection(_KeySection):
    """``[tools.NAME]``: a service that tools ask, ``tavily`` for example, in any case."""

    endpoint: str = ""
    """Its address, if it is not the usual one."""

    @field_validator("endpoint")
    @classmethod
    def _is_address(cls, value: str) -> str:
        return _web_address(value) if value.strip() else ""


class KnowledgeSection(_KeySection):
    """``[knowledge]``: where the datasets are that Retrieval searches."""

    url: Annotated[str, Field(repr=False)] = "sqlite:///ragflow-lg-knowledge.db"
    """``sqlite:///PATH`` is the embedded knowledge base, ``elasticsearch+https://HOST:9200`` the index of a RAGFlow,
    ``ragflow+https://HOST`` its API. ``api_key`` is for the last two."""
    timeout_s: Annotated[float, Field(gt=0)] = 30.0
    """How long one search of a server may take."""
    tokenizer: Literal["es-portable", "ragflow-ranking"] = "es-portable"
    """How questions to Elasticsearch are cut: approximately, or as RAGFlow does, which has to be installed."""
    dictionaries: Path | None = None
    """Folder of RAGFlow's ``ner.json`` and ``synonym.json``, for Elasticsearch."""
    ragflow_url: str = ""
    """``ragflow+https://HOST``: where datasets of Elasticsearch are looked up that ``[datasets]`` does not have."""
    ragflow_api_key: SecretStr | None = None
    ragflow_api_key_env: str = ""

    def ragflow_key(self) -> str:
        """Give the key for ``ragflow_url``, ``""`` if there is none."""
        if self.ragflow_api_key is not None:
            return self.ragflow_api_key.get_secret_value()
        return os.environ.get(self.ragflow_api_key_env, "") if self.ragflow_api_key_env else ""

    def password(self) -> str:
        """Give the password in ``url``, ``""`` if there is none."""
        user = self.url.rpartition("@")[0].rpartition("//")[2]
        return user.partition(":")[2]

    embedding: str = ""
    """The ID of ``[embeddings."ID"]`` that new datasets get. Where it is not set and there is one, that; else the
    hashing stand-in."""
    fusion: Literal["weighted", "rrf"] = "weighted"
    """What orders the chunks of the embedded one: RAGFlow's weighted sum, or reciprocal ranks."""


class EmbeddingSection(_KeySection):
    """``[embeddings."ID"]``: an embedding model of an OpenAI-compatible endpoint, by the id that datasets know."""

    base_url: str
    model: str = ""
    """Its name at the endpoint; where it is not set, ID without what stands behind its last ``@``."""
    dims: Annotated[int, Field(ge=0, le=65_536)] = 0
    """How long its vectors are; an answer of another length is refused."""
    batch: Annotated[int, Field(gt=0, le=2048)] = 64
    """How many texts go into one request."""
    max_retries: Annotated[int, Field(ge=0, le=20)] = 3
    timeout_s: Annotated[float, Field(gt=0)] = 60.0

    @field_validator("base_url")
    @classmethod
    def _is_address(cls, value: str) -> str:
        return _web_address(value)


class DatasetSection(_Section):
    """``[datasets."ID"]``: a dataset that RAGFlow keeps in Elasticsearch."""

    name: str = ""
    embedding_model: str
    """RAGFlow's ``embd_id``; ``[embeddings]`` says where it is reached."""
    tenant: str
    """Id of its owner: the index is ``ragflow_TENANT``."""


class RerankerSection(_KeySection):
    """``[rerankers."ID"]``: a rerank model, by the ``rerank_id`` of canvases. ``/rerank`` is added to ``base_url``."""

    base_url: str
    model: str = ""
    """Its name at the endpoint; where it is not set, ID without what stands behind its last ``@``."""
    style: Literal["cohere", "jina", "tei"] = "jina"
    batch: Annotated[int, Field(gt=0, le=1000)] = 64
    """How many texts go into one request."""
    max_chars: Annotated[int, Field(gt=0)] = 8_000
    """How much of a text is sent."""
    max_retries: Annotated[int, Field(ge=0, le=20)] = 2
    timeout_s: Annotated[float, Field(gt=0)] = 30.0

    @field_validator("base_url")
    @classmethod
    def _is_address(cls, value: str) -> str:
        return _web_address(value)


class HttpSection(_Section):
    """``[http]``: limits of every request that a canvas causes."""

    allow: tuple[str, ...] = ()
    """What may be reached although it is not on the public internet; see `ragflow_lg.adapters.address_guard`."""
    timeout_s: Annotated[float, Field(gt=0)] = 600.0
    max_response_bytes: Annotated[int, Field(gt=0)] = 16 * 1024 * 1024
    concurrency: Annotated[int, Field(gt=0)] = 32


class McpSection(_Section):
    """``[mcp."ID"]``: a server of tools, by the id that canvases know it by (``mcp_id``)."""

    url: SecretStr = SecretStr("")
    """Where it is; or else ``command``."""
    command: str = ""
    """The program to start; it is given ``args`` as they are, no shell reads them."""
    args: tuple[str, ...] = ()
    env: dict[str, SecretStr] = Field(default_factory=dict[str, SecretStr])
    """What its environment has beside PATH, HOME and the like."""
    type: Literal["", "stdio", "sse", "streamable-http"] = ""
    """``stdio`` for a command, ``streamable-http`` for a URL where it is not set."""
    headers: dict[str, SecretStr] = Field(default_factory=dict[str, SecretStr])
    variables: dict[str, SecretStr] = Field(default_factory=dict[str, SecretStr])
    """What ``$name`` and ``${name}`` in ``url``, ``headers`` and ``env`` stand for."""
    variables_env: dict[str, str] = Field(default_factory=dict[str, str])
    """Environment variables that hold values of variables, by the name of these."""
    allow: tuple[str, ...] | None = None
    """The tools that canvases may call; all where it is not set."""
    initialize_timeout_s: Annotated[float, Field(gt=0)] = 5.0
    timeout_s: Annotated[float, Field(gt=0)] = 10.0
    """How long a call may take."""
    max_result_bytes: Annotated[int, Field(gt=0)] = 4 * 1024 * 1024

    @model_validator(mode="after")
    def _has_one_way(self) -> McpSection:
        if bool(self.url) == bool(self.command):
            raise ValueError("set either url or command")
        if self.type and (self.type == "stdio") != bool(self.command):
            raise ValueError("type stdio goes with command, sse and streamable-http with url")
        return self


class OtelSection(_Section):
    """``[otel]``: spans of OpenTelemetry, for the command and ``open_runner``. Needs ``ragflow-lg[otel]``."""

    enabled: bool = False
    exporter: str = "otlp_proto_http"
    """Name of an installed exporter, set up by its own variables ``OTEL_EXPORTER_…``; ``console`` writes to standard
    error; ``""`` hands the spans to the provider that the program has set globally."""
    service_name: str = "ragflow-lg"
    include_content: bool = False
    """Whether arguments, results, thoughts and errors stand in the spans."""


class RunSection(_Section):
    """``[run]``: limits of a run."""

    event_limit: Annotated[int, Field(gt=0)] = 256
    """How many events may wait for the reader before the nodes wait for it."""


class AgentsSection(_Section):
    """``[agents]``: what agents may do with tools. Names of tools are those of `ragflow_lg.tool_policies`."""

    allow_tools: tuple[str, ...] | None = None
    """Names and patterns of the tools that may be called; none for all."""
    deny_tools: tuple[str, ...] = ()
    """Names and patterns of those that may not, whatever is allowed."""
    cache_tools: dict[str, Annotated[float, Field(gt=0)]] = Field(default_factory=dict[str, float])
    """How long results are remembered, in seconds, by name or pattern of the tool. Only results that follow from
    parameters and arguments alone should be."""
    cache_max_bytes: Annotated[int, Field(gt=0)] = 32 * 1024 * 1024
    guards: tuple[str, ...] = ()
    """Entry points of the group ``ragflow_lg.tool_guards`` that look at every call, in order."""


class ServerSection(_Section):
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
    heartbeat_s: Annotated[float, Field(ge=0, le=3600)] = 15.0
    """After so long without an event a stream gets a comment, for the proxies on its way; 0 for none."""
    replica_silence_s: Annotated[float, Field(ge=0.3, le=3600)] = 15.0
    """A replica that has not been heard of for so long is taken for dead, and others go on with its runs."""


class Settings(BaseSettings):
    """All settings. Keys are `SecretStr`: neither ``repr`` nor an error shows them."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True, hide_input_in_errors=True
    )

    default_model: str = "demo"
    """``llm_id`` for nodes that name no model; ``demo`` is the scripted one that needs no key."""
    checkpoints: str = "sqlite:///ragflow-lg.db"
    """URL of the store of sessions: ``memory://``, ``sqlite:///PATH`` or ``redis://…``."""
    checkpoint_prefix: str = ""
    """What the keys of this deployment begin with, where several share a Redis server."""
    checkpoint_ttl_s: Annotated[int, Field(gt=0)] = 30 * 24 * 3600
    """How long Redis keeps a session that nobody touches; longer than the longest wait for an answer."""
    providers: dict[str, ProviderSection] = Field(default_factory=dict[str, ProviderSection])
    models: dict[str, ModelSection] = Field(default_factory=dict[str, ModelSection])
    tools: dict[str, ToolSection] = Field(default_factory=dict[str, ToolSection])
    knowledge: KnowledgeSection = KnowledgeSection()
    embeddings: dict[str, EmbeddingSection] = Field(default_factory=dict[str, EmbeddingSection])
    datasets: dict[str, DatasetSection] = Field(default_factory=dict[str, DatasetSection])
    rerankers: dict[str, RerankerSection] = Field(default_factory=dict[str, RerankerSection])
    mcp: dict[str, McpSection] = Field(default_factory=dict[str, McpSection])
    http: HttpSection = HttpSection()
    run: RunSection = RunSection()
    agents: AgentsSection = AgentsSection()
    canvases: dict[str, Path] = Field(default_factory=dict[str, Path])
    """Canvases that others may play, by name. A path in a file begins at the file's folder."""
    otel: OtelSection = OtelSection()
    server: ServerSection = ServerSection()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Let the environment go before the file, which comes as arguments."""
        return env_settings, init_settings

    @property
    def http_settings(self) -> HttpSettings:
        """The settings of the HTTP client."""
        http = self.http
        return HttpSettings(http.allow, http.timeout_s, http.max_response_bytes, http.concurrency)

    @property
    def tool_settings(self) -> ToolSettings:
        """The settings of the tools."""
        keys = {name.lower(): section.key() for name, section in self.tools.items()}
        return ToolSettings(
            {name.lower(): section.endpoint for name, section in self.tools.items() if section.endpoint},
            {name: key.get_secret_value() for name, key in keys.items() if key is not None},
        )

    @property
    def permits(self) -> ToolPermits:
        """Which tools agents may call."""
        return ToolPermits(self.agents.allow_tools, self.agents.deny_tools)

    @property
    def secrets(self) -> tuple[str, ...]:
        """All keys and passwords, to be kept out of what is written down."""
        models = (*self.providers.values(), *self.embeddings.values(), *self.rerankers.values())
        keys = (section.key() for section in (*models, *self.tools.values(), self.knowledge))
        known = [key.get_secret_value() for key in keys if key is not None]
        known += [self.knowledge.ragflow_key(), self.knowledge.password()]
        for server in self.mcp_settings().values():
            known += [*server.env.values(), *server.headers.values(), *server.variables.values(), server.url]
        return tuple(secret for secret in known if secret)

    @property
    def default_embedding(self) -> str:
        """The ID of the embedding model of new datasets, ``""`` for the stand-in."""
        only = next(iter(self.embeddings)) if len(self.embeddings) == 1 else ""
        return self.knowledge.embedding or only

    def embedding_settings(self) -> dict[str, EmbeddingSettings]:
        """Give the settings of the embedding models by id."""
        found: dict[str, EmbeddingSettings] = {}
        for id_, section in self.embeddings.items():
            key = section.key()
            found[id_] = EmbeddingSettings(
                base_url=section.base_url,
                model=section.model or (id_.rpartition("@")[0] or id_),
                api_key=key.get_secret_value() if key is not None else "",
                key_variable=section.api_key_env if section.api_key is None else "",
                dims=section.dims,
                batch=section.batch,
                max_retries=section.max_retries,
                timeout_s=section.timeout_s,
            )
        return found

    def mcp_settings(self) -> dict[str, McpServerSettings]:
        """Give the settings of the MCP servers by id."""
        found: dict[str, McpServerSettings] = {}
        for id_, section in self.mcp.items():
            named = {name: os.environ.get(variable, "") for name, variable in section.variables_env.items()}
            found[id_] = McpServerSettings(
                kind=section.type or ("stdio" if section.command else "streamable-http"),
                command=section.command,
                args=section.args,
                env=_revealed(section.env),
                url=section.url.get_secret_value(),
                headers=_revealed(section.headers),
                variables={**_revealed(section.variables), **named},
                allow=section.allow,
                initialize_timeout_s=section.initialize_timeout_s,
                timeout_s=section.timeout_s,
                max_result_bytes=section.max_result_bytes,
            )
        return found

    def chat_settings(self, *, override_model: str = "") -> ChatModelSettings:
        """Give the settings of the chat models; ``override_model`` takes the place of every model of a canvas."""
        return ChatModelSettings(
            default_model=self.default_model,
            override_model=override_model,
            providers={name: _provider(section) for name, section in self.providers.items()},
            models={name: ModelSettings(**m.model_dump()) for name, m in self.models.items()},
        )


def _revealed(secrets: Mapping[str, SecretStr]) -> dict[str, str]:
    return {name: secret.get_secret_value() for name, secret in secrets.items()}


def load_settings(path: Path | None = None) -> Settings:
    """Read the settings.

    Raises:
        SettingsError: if the file is missing or no TOML (names file and line), or if a setting is unknown or has
            a wrong value (names the setting, never the value).
    """
    file = _find(path)
    given = _read(file) if file is not None else {}
    if file is not None:
        given = {**given, **_from_folder(given, file.parent)}
    problems = unknown_variables(Settings.model_fields)
    try:
        settings = Settings(**given)
        if not problems:
            return settings
    except pydantic.ValidationError as error:
        problems += [
            _problem(e["loc"], e["type"], e["msg"]) for e in error.errors(include_input=False, include_url=False)
        ]
    except pydantic_settings.SettingsError as error:
        problems.append(f"  environment: {_unreadable(error)}")
    source = f"of {file} or the environment" if file is not None else "of the environment"
    raise SettingsError("\n".join([f"The settings {source} are wrong:", *problems]))


def _from_folder(given: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Let the paths of canvases begin at the folder of the file that names them."""
    canvases = given.get("canvases")
    if not isinstance(canvases, dict):
        return {}
    paths = cast("dict[str, Any]", canvases)
    return {
        "canvases": {name: folder.absolute() / _home(Path(p)) if isinstance(p, str) else p for name, p in paths.items()}
    }


def _provider(section: ProviderSection) -> ProviderSettings:
    key = section.key()
    return ProviderSettings(
        base_url=section.base_url,
        api_key=key.get_secret_value() if key is not None else "",
        models=section.models,
        timeout_s=section.timeout_s,
        idle_timeout_s=section.idle_timeout_s,
        max_retries=section.max_retries,
        concurrency=section.concurrency,
        counts_streams=section.counts_streams,
        client=section.client,
        key_variable=section.api_key_env if section.api_key is None else "",
    )


def _find(path: Path | None) -> Path | None:
    named = path or os.environ.get(FILE_VARIABLE)
    if named:
        file = _home(Path(named))
        if not file.is_file():
            origin = "--settings" if path else FILE_VARIABLE
            raise SettingsError(f"The settings file {str(file)!r} named by {origin} does not exist.")
        return file
    config = _home(Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config"))
    usual = (Path("ragflow-lg.toml"), config / "ragflow-lg" / "settings.toml")
    return next((file for file in usual if file.is_file()), None)


def _home(path: Path) -> Path:
    """Expand ``~``; a home that nobody has stays as it is written, and does not exist."""
    try:
        return path.expanduser()
    except RuntimeError:
        return path


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{file} is not TOML: {error}.") from None
    except RecursionError:
        raise SettingsError(f"{file} cannot be read: it is nested too deeply.") from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"{file} is not TOML: it is not UTF-8 text (at byte {error.start}).") from None
    except ValueError as error:
        raise SettingsError(f"{file} cannot be read: {error}.") from None
    except OSError as error:
        raise SettingsError(f"{file} cannot be read: {error.strerror}.") from None


def _unreadable(error: pydantic_settings.SettingsError) -> str:
    """Say which variable holds no JSON where a list or a table is wanted, without its value."""
    field = _FIELD.search(str(error))
    variable = variable_of([field[1]]) if field else ""
    return f"{variable} holds no JSON, as lists and tables are written." if variable else f"{error}."


def _problem(place: tuple[int | str, ...], kind: str, message: str) -> str:
    variable = variable_of(place)
    name = ".".join(str(part) for part in place) + (f" ({variable})" if variable else "")
    if kind != "extra_forbidden":
        return f"  {name}: {message}."
    near = get_close_matches(str(place[-1]), _known(place[:-1]), n=1)
    return f"  {name}: there is no such setting." + (f" Did you mean {near[0]!r}?" if near else "")


def _known(place: tuple[int | str, ...]) -> list[str]:
    """Give the names of the settings beside an unknown one."""
    sections: dict[int | str, type[BaseModel]] = {
        "providers": ProviderSection,
        "models": ModelSection,
        "tools": ToolSection,
        "knowledge": KnowledgeSection,
        "embeddings": EmbeddingSection,
        "datasets": DatasetSection,
        "rerankers": RerankerSection,
        "mcp": McpSection,
        "http": HttpSection,
        "run": RunSection,
        "agents": AgentsSection,
        "otel": OtelSection,
        "server": ServerSection,
    }
    model = sections.get(place[0], Settings) if place else Settings
    return list(cast("dict[str, Any]", model.model_fields))
