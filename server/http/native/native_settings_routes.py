"""Routes for what an agent needs and for what the page adds to the settings: providers, models, keys, servers.

Only the tenant that owns the settings may add to them, and only if the operator allows it. No answer contains a key.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, Field, SecretStr
from starlette.requests import Request

from ragflow_lg.adapters.chat.chat_settings import DEMO, is_demo
from ragflow_lg.adapters.chat.model_resolution import ConfiguredModels
from ragflow_lg.adapters.http.address_guard import AddressGuard
from ragflow_lg.adapters.known_providers import PROVIDERS
from ragflow_lg.base.errors import RagflowLgError, RequestError, ServiceError
from ragflow_lg.component.integration import find_integrations
from ragflow_lg.server.agents.agent_versions import find_version
from ragflow_lg.server.assembly.canvas_needs import Need, list_needs, need_labels
from ragflow_lg.server.assembly.example_questions import QuestionKind, find_questions
from ragflow_lg.server.assembly.health_checks import check_health
from ragflow_lg.server.assembly.model_list import list_models
from ragflow_lg.server.assembly.model_trial import try_model
from ragflow_lg.server.assembly.page_settings import NOTHING, PageSettings, store_page_settings, takes_servers
from ragflow_lg.server.http.native.native_requests import Body, Line, Text
from ragflow_lg.server.http.native.native_responses import build_answer
from ragflow_lg.server.http.native.native_routing import Agent, make_agent_router, make_native_router
from ragflow_lg.server.http.native.problem_details import describe_problems
from ragflow_lg.server.http.shared.auth import Authenticated, get_app_state, get_turns
from ragflow_lg.server.http.shared.ragflow_routes import with_examples
from ragflow_lg.server.observability.logs import audit
from ragflow_lg.server.settings.sections import web_address

if TYPE_CHECKING:
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.assembly.tenant_resources import TenantResources
    from ragflow_lg.server.settings import Settings

needs_router = make_agent_router("settings")
router = make_native_router("settings")

MAX_ENTRIES = 100
"""How many providers, models, keys and agents the page may name."""

_LOOPBACK = ("127.0.0.0/8", "::1")


class NeedAnswer(BaseModel):
    """Something that an agent needs from outside."""

    kind: Annotated[str, Field(description="`model`, `dataset`, `key`, `mcp_server` and others.", examples=["model"])]
    label: Annotated[str, Field(description="The kind in words.", examples=["API key of"])]
    name: Annotated[str, Field(description="Id of the model or dataset, or name of the service; empty: the default.")]
    users: Annotated[list[str], Field(description="Titles of the nodes that need it.")]
    state: Literal["present", "missing", "not checked", "demo"]
    message: Annotated[str, Field(description="What is wrong; empty if nothing is.")]
    code: Annotated[str, Field(description="Code of a diagnostic that says the same.", examples=["model-unavailable"])]
    remedy: Annotated[str, Field(description="What to do in the settings.")]
    node: Annotated[str, Field(description="Id of the node whose parameter is empty, in this canvas.")]


class ExampleQuestion(BaseModel):
    """A question with which a conversation can begin."""

    kind: Annotated[QuestionKind, Field(description="`own`: a text of the canvas; else, what it is about.")]
    value: Annotated[str, Field(description="The text, or the dataset that the question is about.")]


class NeedsAnswer(BaseModel):
    """What an agent needs, and how a conversation can begin."""

    ready: Annotated[bool, Field(description="Whether nothing is missing, or a demo replaces it.")]
    missing: Annotated[list[NeedAnswer], Field(description="What is missing; also what only the demo model answers.")]
    present: list[NeedAnswer]
    is_demo: Annotated[bool, Field(description="Whether the demo model answers, with samples in place of services.")]
    chose_demo: Annotated[bool, Field(description="Whether the page has chosen the demo for this agent.")]
    questions: Annotated[list[ExampleQuestion], Field(description="Up to three questions that fit the agent.")]


@needs_router.get("/needs", summary="Show what an agent needs")
async def get_needs(request: Request, agent: Agent) -> NeedsAnswer:
    """Return the models, datasets and keys that the agent needs, what is missing, and example questions."""
    app_state = get_app_state(request)
    row = await find_version(app_state.database, agent, "")
    plan = (await get_turns(request).canvases.compile(row)).plan
    settings = app_state.settings_of(agent.tenant)
    has_model = bool(settings.override_model) and not is_demo(settings.override_model)
    needs = await asyncio.to_thread(list_needs, plan, settings)
    needs = [need for need in needs if not (has_model and need.kind == "model")]
    missing = [need for need in needs if need.state in ("missing", "demo")]
    plays_demo = app_state.services_of(agent.tenant, agent.id).is_demo
    return NeedsAnswer(
        ready=not any(n.state == "missing" and (n.code == "webhook-closed" or not plays_demo) for n in missing),
        missing=[_build_need(need) for need in missing],
        present=[_build_need(need) for need in needs if need not in missing],
        is_demo=plays_demo,
        chose_demo=app_state.resources is not None and agent.id in app_state.resources.saved(agent.tenant).demo,
        questions=[ExampleQuestion(**each._asdict()) for each in find_questions(plan, agent.title)],
    )


def _build_need(need: Need) -> NeedAnswer:
    message, _, remedy = need.problem.partition(". ")
    return NeedAnswer(
        kind=need.kind,
        label=need_labels().get(need.kind, need.kind),
        name=need.name,
        users=list(need.users),
        state=need.state,
        message=message and f"{message.rstrip('.')}.",
        code=need.code,
        remedy=remedy,
        node=need.node,
    )


class KnownProvider(BaseModel):
    """A provider that needs no address, or whose usual address is known."""

    name: str
    base_url: Annotated[str, Field(description="Its address; empty if every user has another one.")]
    has_key: Annotated[bool, Field(description="Whether it usually needs a key.")]


class SavedProvider(BaseModel):
    """A provider that the page has added."""

    name: str
    base_url: str
    has_key: Annotated[bool, Field(description="Whether a key is set. It is never shown.")]


class SavedServer(BaseModel):
    """An MCP server that the page has added. Its address, which may contain a key, is not shown."""

    name: str
    has_key: Annotated[bool, Field(description="Whether a token is set. It is never shown.")]


class SettingsAnswer(BaseModel):
    """What the page has added to the settings, and what it may add."""

    is_owner: Annotated[bool, Field(description="Whether the settings of the server are this tenant's own.")]
    may_change: bool
    reason: Annotated[str, Field(description="Why nothing may be changed, and what to do; empty if it may.")]
    providers: Annotated[list[SavedProvider], Field(description="The providers that the page has added.")]
    models: Annotated[dict[str, str], Field(description="Models that answer in place of others, by the other's id.")]
    tools: Annotated[list[str], Field(description="The services with a key from the page.")]
    mcp: Annotated[list[SavedServer], Field(description="The MCP servers that the page has added.")]
    default_model: Annotated[str, Field(description="The default model of the page; empty for that of the settings.")]
    is_demo: Annotated[bool, Field(description="Whether the demo model answers where no other one can.")]
    usable: Annotated[list[str], Field(description="Ids of the chat models that can be used.")]
    known: Annotated[list[KnownProvider], Field(description="The known providers.")]


@router.get("/settings", summary="Show settings")
async def get_settings(request: Request, caller: Authenticated) -> SettingsAnswer:
    """Return what the page has added to the settings. Nothing for a tenant that does not own them."""
    return await _build_settings(get_app_state(request), caller.tenant)


def _entry_name(name: str) -> str:
    if not name.strip() or len(name) > 200 or not name.isprintable():
        raise ValueError("must be a name of at most 200 characters")
    return name.strip()


Name = Annotated[str, AfterValidator(_entry_name)]
Key = Annotated[SecretStr, Field(max_length=8_192)]


class ProviderEntry(Body):
    """A provider. It needs a key or an address."""

    base_url: Annotated[Line, AfterValidator(lambda text: web_address(text) if text.strip() else "")] = ""
    api_key: Key = SecretStr("")


class KeyEntry(Body):
    """The key of a service that tools call."""

    api_key: Key


class McpEntry(Body):
    """An MCP server over HTTP. Programs are started only by the settings file."""

    url: Annotated[Text, Field(max_length=2_048), AfterValidator(web_address)]
    type: Literal["sse", "streamable-http"] = "streamable-http"
    api_key: Annotated[Key, Field(description="Is sent as a bearer token.")] = SecretStr("")


class SettingsChange(Body):
    """Entries to add, which replace those of their names; null removes one."""

    model_config = with_examples({"providers": {"OpenAI": {"api_key": "sk-…"}}, "default_model": "gpt-4.1-mini@OpenAI"})

    providers: Annotated[
        dict[Name, ProviderEntry | None], Field(description="Providers; a model's id ends with the name of its own.")
    ] = Field(default_factory=dict[str, ProviderEntry | None])
    models: Annotated[dict[Name, Name | None], Field(description="Models that answer in place of others.")] = Field(
        default_factory=dict[str, str | None]
    )
    tools: Annotated[dict[Name, KeyEntry | None], Field(description="Keys of services.")] = Field(
        default_factory=dict[str, KeyEntry | None]
    )
    mcp: Annotated[
        dict[Name, McpEntry | None], Field(description="MCP servers, by the `mcp_id` that canvases have.")
    ] = Field(default_factory=dict[str, McpEntry | None])
    default_model: Annotated[Line | None, Field(description="The model for nodes that name none.")] = None
    demo: Annotated[
        dict[Name, bool], Field(description="Agents for which the demo model answers, or no longer, by id.")
    ] = Field(default_factory=dict[str, bool])

    def apply(self, saved: PageSettings) -> PageSettings:
        """Return what is saved with this change."""
        models = {id_: None if use is None else {"use": use} for id_, use in self.models.items()}
        change: dict[str, Any] = {
            "providers": {name: _reveal(entry) for name, entry in self.providers.items()},
            "tools": {name: _reveal(entry) for name, entry in self.tools.items()},
            "mcp": {name: _reveal(entry) for name, entry in self.mcp.items()},
            "models": models,
            "demo": [*({*saved.demo, *self.demo} - {id_ for id_, is_demo in self.demo.items() if not is_demo})],
        }
        if self.default_model is not None:
            change["default_model"] = self.default_model.strip()
        changed = saved.change(change)
        if max(map(len, (changed.providers, changed.tools, changed.mcp, changed.models, changed.demo))) > MAX_ENTRIES:
            raise RequestError(f"The page keeps at most {MAX_ENTRIES} of each.", 101, status=422)
        return changed


def _reveal(entry: ProviderEntry | KeyEntry | McpEntry | None) -> dict[str, Any] | None:
    if entry is None:
        return None
    key = {"api_key": entry.api_key.get_secret_value().strip()}
    if isinstance(entry, KeyEntry):
        return key
    if isinstance(entry, McpEntry):
        return {**key, "url": entry.url, "type": entry.type}
    if not (entry.base_url or key["api_key"]):
        raise RequestError("A provider needs `api_key` or `base_url`.", 101, status=422)
    return {**key, "base_url": entry.base_url}


@router.patch("/settings", responses=describe_problems(403), summary="Change settings")
async def change_settings(body: SettingsChange, request: Request, caller: Authenticated) -> SettingsAnswer:
    """Add providers, models in place of others, keys and MCP servers. They are used at once, also after a restart."""
    app_state = get_app_state(request)
    resources = require_rights(app_state, caller.tenant)
    changed = await _change(body, resources, app_state, caller.tenant)
    await store_page_settings(app_state.database, caller.tenant, changed)
    chooses_models = bool(body.providers or body.models or body.default_model)
    resources.save(caller.tenant, changed, chooses_models=chooses_models)
    names = (*body.providers, *body.models, *body.tools, *body.mcp, *body.demo, body.default_model or "")
    audit("settings.changed", names=", ".join(filter(None, names))[:500])
    return await _build_settings(app_state, caller.tenant)


class TrialRequest(SettingsChange):
    """A model to ask, with a change that is not saved."""

    model: Annotated[Name, Field(description="Id of the model.", examples=["gpt-4.1-mini@OpenAI"])]


class TrialAnswer(BaseModel):
    """What the model answered, or why it did not."""

    seconds: float
    answer: str
    problem: Annotated[str, Field(description="What went wrong; empty if nothing did.")]


@router.post("/settings/try", responses=describe_problems(403), summary="Try a model")
async def try_settings(body: TrialRequest, request: Request, caller: Authenticated) -> TrialAnswer:
    """Ask a model once, with a change of the settings that is not saved. The question has five words."""
    app_state = get_app_state(request)
    resources = require_rights(app_state, caller.tenant)
    changed = await _change(body, resources, app_state, caller.tenant)
    trial = await try_model(changed.apply(app_state.settings), body.model)
    return TrialAnswer(seconds=round(trial.seconds, 2), answer=trial.answer, problem=trial.problem)


class HealthAnswer(BaseModel):
    """The result of a check, as `ragflow-lg doctor` shows it."""

    area: Annotated[str, Field(description="What it is about; an integration by its name.", examples=["store", "mcp"])]
    is_well: bool
    what: str
    advice: str


class HealthListAnswer(BaseModel):
    """The results of all checks."""

    checks: list[HealthAnswer]


@router.get("/settings/checks", responses=describe_problems(403), summary="Check the server")
async def check_settings(request: Request, caller: Authenticated) -> HealthListAnswer:
    """Check the store, the models, the MCP servers and what is installed, as `ragflow-lg doctor` does."""
    app_state = get_app_state(request)
    if refusal := _find_owner_problem(app_state, caller.tenant):
        raise RequestError(refusal, status=403)
    found = await check_health(app_state.settings_of(caller.tenant))
    answers = [build_answer(HealthAnswer, each, area=area) for area, checks in found.items() for each in checks]
    return HealthListAnswer(checks=answers)


def _find_owner_problem(app_state: AppState, tenant: str) -> str:
    if app_state.resources is not None and app_state.resources.owns_settings(tenant):
        return ""
    return (
        "The settings of this server belong to another tenant. Ask its operator to share models and datasets: "
        f'[tenants."{tenant}"] models and keys in the settings file.'
    )


def find_refusal(app_state: AppState, tenant: str) -> str:
    """Return why a tenant may not add to the settings, and what to do, or ``""`` if it may."""
    if problem := _find_owner_problem(app_state, tenant):
        return problem
    if not app_state.settings.server.accepts_settings:
        return (
            "This server takes no settings from the page, because others may reach it. Write them into the settings "
            "file, or set [server] page_settings = true there."
        )
    if app_state.queue is not None:
        return "Several processes play the runs of this server. Write the settings into the file that all of them read."
    return ""


def require_rights(app_state: AppState, tenant: str) -> TenantResources:
    """Return what the tenants use, or refuse a tenant that may not add to the settings.

    Raises:
        RequestError: if it may not.
    """
    resources, refusal = app_state.resources, find_refusal(app_state, tenant)
    if refusal or resources is None:
        audit("settings.refused")
        raise RequestError(refusal, status=403)
    return resources


async def _change(body: SettingsChange, resources: TenantResources, app_state: AppState, tenant: str) -> PageSettings:
    """Return what is saved with a change, whose addresses may be reached."""
    section = app_state.settings.server
    guard = AddressGuard((*app_state.settings.http.allow, *(_LOOPBACK if section.is_local else ())))
    if any(body.mcp.values()) and not takes_servers(app_state.settings):
        refusal = find_integrations().missing.get("mcp", "The integration mcp is not installed.")
        raise RequestError(str(refusal), 101, status=422)
    urls = [(name, each.base_url) for name, each in body.providers.items() if each]
    urls += [(name, each.url) for name, each in body.mcp.items() if each]
    for name, url in urls:
        if url:
            address = urlsplit(url)
            try:
                await guard.resolve(address.hostname or "", address.port or (443 if address.scheme == "https" else 80))
            except ServiceError as error:
                raise RequestError(f"The address of {name!r} cannot be used. {error}", 101, status=422) from None
    return body.apply(resources.saved(tenant))


async def _build_settings(app_state: AppState, tenant: str) -> SettingsAnswer:
    owns = not _find_owner_problem(app_state, tenant)
    resources, settings = app_state.resources, app_state.settings_of(tenant)
    saved = resources.saved(tenant) if resources is not None and owns else NOTHING
    providers = [
        SavedProvider(name=name, base_url=each.base_url, has_key=bool(each.api_key))
        for name, each in saved.providers.items()
    ]
    known = [
        KnownProvider(name=name, base_url=each.base_url, has_key=bool(each.key))
        for name, each in PROVIDERS.items()
        if each.family and "chat" in each.abilities.split()
    ]
    refusal = find_refusal(app_state, tenant)
    return SettingsAnswer(
        is_owner=owns,
        may_change=not refusal,
        reason=refusal,
        providers=providers,
        models={id_: each.use for id_, each in saved.models.items()},
        tools=list(saved.tools),
        mcp=[SavedServer(name=name, has_key=bool(each.api_key)) for name, each in saved.mcp.items()],
        default_model=saved.default_model,
        is_demo=app_state.services_of(tenant).is_demo or is_demo(settings.chat_settings().default_model),
        usable=await _list_usable(settings),
        known=known,
    )


async def _list_usable(settings: Settings) -> list[str]:
    """Return the chat models of the settings that can be used, but not the demo model."""
    listed = [each.id for each in list_models(settings) if "chat" in each.kinds and each.provider != DEMO]
    used = {id_: each.use for id_, each in settings.models.items() if each.use}
    models, usable = ConfiguredModels(settings.chat_settings()), list[str]()
    for id_ in dict.fromkeys(id_ for id_ in (*listed, *used.values()) if id_ not in used):
        try:
            models.model(id_)
        except RagflowLgError:
            continue
        usable.append(id_)
    await models.aclose()
    return usable
