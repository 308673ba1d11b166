"""The cards that agents show to A2A clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from a2a.server.request_handlers.response_helpers import agent_card_to_dict
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    HTTPAuthSecurityScheme,
    SecurityRequirement,
    SecurityScheme,
    StringList,
)

from ragflow_lg.dsl.forms import form_fields

if TYPE_CHECKING:
    from ragflow_lg.component.plan import Plan
    from ragflow_lg.server.database.tables import AgentRow, VersionRow

MAX_DESCRIPTION_CHARS = 10_000

_INTERFACES = (("JSONRPC", "1.0"), ("HTTP+JSON", "1.0"), ("JSONRPC", "0.3"))
_TEXT, _DATA = "text/plain", "application/json"


def public_card(address: str) -> AgentCard:
    """Return what anybody may know of an agent: that there may be one, and that it wants a key.

    It is the same whether or not there is an agent at the address.
    """
    skill = AgentSkill(id="ask", name="Ask", description="Send a key to read what the agent can do.", tags=["agent"])
    return AgentCard(
        name="Agent",
        description="An agent of ragflow-lg. Send an API key to get its whole card.",
        version="1",
        supported_interfaces=[
            AgentInterface(url=address, protocol_binding=kind, protocol_version=version)
            for kind, version in _INTERFACES
        ],
        capabilities=AgentCapabilities(streaming=True, extended_agent_card=True),
        security_schemes={"ApiKey": SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme="Bearer"))},
        security_requirements=[SecurityRequirement(schemes={"ApiKey": StringList()})],
        default_input_modes=[_TEXT],
        default_output_modes=[_TEXT],
        skills=[skill],
    )


def describe_agent(agent: AgentRow, version: VersionRow, plan: Plan, address: str) -> AgentCard:
    """Return the whole card of an agent. Its skill names the fields of Begin's form."""
    begin: Any = plan.nodes[plan.entry].params
    card = public_card(address)
    description = agent.description.strip() or getattr(begin, "prologue", None) or f"Ask the agent {agent.title}."
    card.name, card.version, card.description = agent.title, version.id, description[:MAX_DESCRIPTION_CHARS]
    fields = list(form_fields(getattr(begin, "inputs", {})))
    names = ", ".join(f"{field.name} ({field.type}{', optional' if field.is_optional else ''})" for field in fields)
    skill = card.skills[0]
    skill.name = agent.title
    skill.description = f"{card.description}\n\nFields, as a data part: {names}." if fields else card.description
    del card.default_input_modes[:], card.default_output_modes[:]
    card.default_input_modes.extend([_TEXT, _DATA, *(["*/*"] if plan.reads_files else [])])
    card.default_output_modes.extend([_TEXT, _DATA, "*/*"])
    return card


def encode_card(card: AgentCard) -> dict[str, Any]:
    """Return a card as JSON, with the fields of version 0.3 as well."""
    return agent_card_to_dict(card)
