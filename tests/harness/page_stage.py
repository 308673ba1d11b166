"""A server with agents and a scripted model, for the pictures and the film of the page."""

import json
import sqlite3
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct
from playwright.async_api import Browser, Page, ViewportSize

from ragflow_lg.integrations.mock_model.rules import Reply, Rule, Rules, When
from tests.fakes.mock_llm import MockLLM
from tests.server.cli.command import ROOT
from tests.server.replicas import RAGFLOW_LG, Replica, start_replica

CANVASES = ROOT / "examples"
SETTINGS = """
checkpoints = "sqlite:///{folder}/sessions.db"
default_model = "gpt-4.1-mini@OpenAI"
[providers.OpenAI]
base_url = "{base_url}"
api_key = "none"
[knowledge]
url = "sqlite:///{folder}/knowledge.db"
[server]
database = "sqlite:///{folder}/server.db"
files = "{folder}/files"
"""
PARCEL = """Your parcel **RL-2041** left Hamburg this morning and arrives tomorrow before noon.

| When | Where | State |
| --- | --- | --- |
| Mon 18:20 | Lübeck, workshop | packed |
| Tue 07:40 | Hamburg, sorting centre | scanned |
| Tue 09:15 | on the way to Bremen | in the van |

If nobody is at home, it waits for you at the shop in Parkallee 12 for seven days."""
REFUND = """I am sorry that the lamp arrived broken. You get your **49.90\u00a0€** back within three days:

1. Put the lamp back into its box; the cable may stay out.
2. Print the label that we have just sent you.
3. Leave the box at any parcel shop until Friday.

Would you rather have a new lamp? Write *exchange*, and it leaves our workshop today."""
VACATION = """You have **27 days** of paid vacation in a calendar year [ID:181]. If you begin in the middle of a year, \
you get a twelfth of it for each full month.

Up to five days may be taken along into the next year, until the end of March [ID:181]. Days on which you are ill do \
not count as vacation, even while you are away [ID:451]."""


def _when(**conditions: Any) -> When:
    return When.model_validate(conditions)


def scripted(pace: float) -> Rules:
    """Return what the models answer, at the speed of a model if the pace is 1."""

    def say(text: str, **more: Any) -> list[Reply]:
        usage = {"prompt_tokens": 214, "completion_tokens": len(text) // 4}
        speed = {"delay_s": 0.5 * pace, "cut_text": 4, "piece_delay_s": 0.04 * pace}
        return [Reply.model_validate({"text": text, "usage": usage, **speed, **more})]

    def sort(words: str, category: str) -> Rule:
        last_line = {"regex": f"(?s).*{words}[^\n]*$"}
        return Rule(when=_when(system="You classify messages", user=last_line), replies=say(category))

    calls = [
        {"name": "Retrieval", "arguments": {"query": query}} for query in ("days of paid vacation", "days when ill")
    ]
    thought = "Two passages are needed: how many days, and what happens to the rest."
    return Rules(
        rules=[
            sort("broken", "Refund"),
            sort("Where is", "Delivery"),
            sort("Lisbon", "Other"),
            Rule(when=_when(tools=True, last_role="user"), replies=say("", calls=calls, reasoning=thought)),
            Rule(when=_when(tools=True), replies=say(VACATION)),
            Rule(when=_when(user="broken"), replies=say(REFUND)),
            Rule(replies=say(PARCEL)),
        ]
    )


def example(name: str, **params: Any) -> dict[str, Any]:
    """Return an example; ``params`` replace those of its components, by the names of these."""
    canvas = json.loads((CANVASES / f"{name}.json").read_text("utf-8"))
    for component in canvas.get("dsl", canvas)["components"].values():
        component["obj"]["params"].update(params.get(component["obj"]["component_name"], {}))
    return canvas


def lamp_shop() -> dict[str, Any]:
    """Return a router whose answer is streamed: without the node that joins the branches."""
    joined, reply, desks = "VariableAggregator:DeskAnswer", "Message:Reply", ("LLM:DeliveryDesk", "LLM:RefundDesk")
    canvas = example("customer_service_router", LLM={"max_retries": 0})
    components, graph = canvas["dsl"]["components"], canvas["dsl"]["graph"]
    del components[joined]
    for desk in desks:
        components[desk]["downstream"] = [reply]
    components[reply]["upstream"] = list(desks)
    components[reply]["obj"]["params"]["content"] = ["".join(f"{{{desk}@content}}" for desk in desks)]
    graph["nodes"] = [node for node in graph["nodes"] if node["id"] != joined]
    columns = {"begin": 0, "Categorize:SortRequest": 225, reply: 735}
    for node in graph["nodes"]:
        node["position"] = {
            "x": columns.get(node["id"], 495),
            "y": 140 if node["id"] == reply else node["position"]["y"],
        }
    graph["edges"] = [edge for edge in graph["edges"] if joined not in (edge["source"], edge["target"])]
    graph["edges"] += [{"source": desk, "target": reply} for desk in desks]
    return {**canvas, "title": {"en": "Lamp shop"}}


class Stage(Struct):
    """A running server, where its data are, and how it is started again."""

    folder: Path
    settings: Path
    server: Replica

    @property
    def address(self) -> str:
        return str(self.server.client.base_url).removesuffix("/api/v1/")

    async def kill(self) -> None:
        """Kill the server as ``kill -9`` does."""
        self.server.process.kill()
        await self.server.process.wait()
        await self.server.client.aclose()

    async def start_again(self) -> None:
        """Start a server at the same address with the same data."""
        self.server = await start_replica(
            self.settings, self.server.key, int(self.address.rpartition(":")[2]), model=""
        )

    async def add(self, title: str, canvas: Mapping[str, Any], description: str) -> str:
        """Add an agent of the reader."""
        body = {"title": title, "dsl": canvas.get("dsl", canvas), "description": description}
        answer = (await self.server.client.post("/agents", json=body)).json()
        assert answer["code"] == 0, answer
        return answer["data"]["id"]

    async def talk(self, agent: str, question: str, hours: float) -> None:
        """Ask an agent in a conversation that is some hours old."""
        body = {"agent_id": agent, "query": question}
        answer = (await self.server.client.post("/agents/chat/completions", json=body)).json()
        assert answer["code"] == 0, answer
        then = int((time.time() - hours * 3600) * 1000)
        with closing(sqlite3.connect(self.folder / "server.db")) as database, database:
            database.execute("UPDATE sessions SET create_ms = ?, update_ms = ? WHERE agent_id = ?", (then, then, agent))


async def enter(
    stage: Stage, browser: Browser, size: ViewportSize, theme: Literal["light", "dark"], share: int = 50
) -> Page:
    """Open the page in a new context, with so many hundredths of its width for the panel."""
    context = await browser.new_context(viewport=size, color_scheme=theme)
    await context.add_init_script(f"localStorage.setItem('ragflow-lg-share', '{share}')")
    page = await context.new_page()
    await page.goto(f"{stage.address}/#key={stage.server.key}")
    return page


@asynccontextmanager
async def set_up(folder: Path, *examples: str, pace: float = 1) -> AsyncGenerator[Stage]:
    """Yield a server with a dataset, some of the examples, and no agents of the reader."""
    async with MockLLM(rules=scripted(pace)) as llm:
        settings = folder / "settings.toml"
        settings.write_text(SETTINGS.format(folder=folder, base_url=llm.base_url), "utf-8")
        knowledge = await RAGFLOW_LG.start(["kb", "add", CANVASES / "handbook", "--settings", settings], folder)
        assert await knowledge.wait() == 0
        (folder / "examples").mkdir()
        canvases = [folder / "examples" / f"{name}.json" for name in examples]
        for path in canvases:
            path.symlink_to(CANVASES / path.name)
        server = await start_replica(settings, "", model="", canvases=canvases)
        stage = Stage(folder, settings, server)
        try:
            yield stage
        finally:
            with suppress(ProcessLookupError):
                await stage.kill()
