"""The embedded chat in a frame of another site, in a real Chromium, with the key of a page."""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from playwright.async_api import Browser, FrameLocator, Page, expect

from tests.fakes.browsers import needs_chromium
from tests.fakes.http_server import HttpServer, Route
from tests.fakes.knowledge import FakeKnowledge, chunk
from tests.fakes.services import Reply
from tests.server.http.app_server import CITING, MODEL, AppServer, canvas, start_app
from tests.server.http.native.native_client import native
from tests.server.page.visits import HOSTILE, Visit, visit

pytestmark = needs_chromium


def _ask_size(name: str) -> list[tuple[str, str, dict[str, Any], list[str]]]:
    fields = {"size": {"name": "Size", "type": "integer"}}
    form = {"enable_tips": True, "tips": f"{name}?", "inputs": fields}
    shown = {"content": [f"{name} {{UserFillUp:{name}@size}}"]}
    return [(f"UserFillUp:{name}", "UserFillUp", form, [f"Message:{name}"]), (f"Message:{name}", "Message", shown, [])]


FORMS = canvas(
    ("begin", "Begin", {}, ["UserFillUp:Shirt", "UserFillUp:Shoes"]), *_ask_size("Shirt"), *_ask_size("Shoes")
)
"""Two forms that wait at the same time, with fields of the same name."""


@asynccontextmanager
async def open_shop(
    browser: Browser,
    folder: Path,
    dsl: dict[str, Any],
    replies: list[Reply],
    *,
    is_listed: bool = True,
    look: str = "",
    **options: Any,
) -> AsyncGenerator[tuple[AppServer, Visit, FrameLocator]]:
    """Open a page of another site with the chat in a frame."""
    shop = HttpServer()
    async with shop.running():
        site = f"http://localhost:{shop.port}"
        async with start_app(folder, replies, frame_origins=(site,) if is_listed else (), **options) as server:
            agent = await server.agent(dsl, HOSTILE[:60])
            key = await server.new_key(kind="beta", agents=[agent])
            address = f"{server.url}/chat/{agent}?auth={key}{look}"
            frame = (
                f'<!doctype html><link rel=icon href=data:,><iframe src="{address}" width="400" height="600"></iframe>'
            )
            shop.routes.append(Route("/", headers={"content-type": "text/html"}, body=frame))
            async with visit(browser, server.url, "", site) as shown:
                await shown.page.goto(f"{site}/")
                yield server, shown, shown.page.frame_locator("iframe")


async def ask(frame: FrameLocator | Page, text: str) -> None:
    await frame.get_by_role("textbox", name="Your message").fill(text)
    await frame.get_by_role("button", name="Send").click()


async def test_visitors_chat_in_a_frame_of_another_site(browser: Browser, tmp_path: Path) -> None:
    chunks = [chunk("c-rice", f"Rice needs water. {HOSTILE}")]
    replies = [Reply(text=f"Hello {HOSTILE} [ID:61]."), Reply(text='Again.\n\n```mermaid\npie\n"a": 1\n```')]
    knowledge = FakeKnowledge(chunks=[chunk("c-tea", "Tea."), *chunks])
    async with open_shop(browser, tmp_path, CITING, replies, knowledge=knowledge) as (server, shown, frame):
        page = shown.page
        await expect(frame.get_by_text("Hi there!")).to_be_visible()
        await expect(frame.get_by_role("heading", name=HOSTILE[:60])).to_be_visible()
        await ask(frame, "rice")
        await expect(frame.locator(".message.assistant")).to_contain_text("Hello")
        await frame.locator(".piece [data-cite]").click()
        await expect(frame.get_by_role("complementary")).to_contain_text("Rice needs water.")
        await ask(frame, "more")
        await frame.locator(".code").get_by_role("button", name="Draw").click()
        await expect(frame.get_by_role("img", name="Mermaid diagram")).to_be_visible()
        await expect(frame.locator(".message.assistant").last).to_contain_text("Again.")
        await expect(frame.locator(".message")).to_have_count(4)
        assert await page.frames[1].evaluate("window.hacked") is None

        await page.route(
            "**/completions", lambda route: route.fulfill(status=429, json={"code": 429, "message": "Busy."})
        )
        await ask(frame, "once more")
        await expect(frame.get_by_role("alert")).to_contain_text("Busy.")
        await expect(frame.get_by_role("alert").get_by_role("button", name="Retry")).to_be_visible()
        shown.expected.append("status of 429")
        sessions = await server.get("/agents/" + page.frames[1].url.split("/")[-1].split("?")[0] + "/sessions")
        assert len(sessions["data"]) == 1


async def test_visitors_answer_each_form_and_keep_their_conversation(browser: Browser, tmp_path: Path) -> None:
    replies = [Reply(chunks=["Once upon"], hangs=True), Reply("A time."), *[Reply(error="host 4711")] * 9]
    async with start_app(tmp_path, replies) as server, visit(browser, server.url, "") as opened:
        page, agent, teller = opened.page, await server.agent(FORMS), await server.agent(MODEL)
        key = await server.new_key(kind="beta", agents=[agent, teller])
        await page.goto(f"{server.url}/chat/{agent}?auth={key}")
        shirt, shoes = (page.locator(".pause").filter(has_text=name) for name in ("Shirt?", "Shoes?"))
        shown, again = page.locator(".entry .plain, .entry .piece"), page.get_by_role("button", name="New conversation")
        await ask(page, "An order")
        await expect(page.locator(".pause")).to_have_count(2)  # a stream has one for both
        await shoes.get_by_label("Size").fill("39")
        await shirt.get_by_label("Size").fill("42")
        await shirt.get_by_role("button", name="Answer").click()
        await expect(page.locator(".pause")).to_have_count(1)
        await expect(page.get_by_role("button", name="Stop")).to_have_count(0)  # a reload would cancel the answer
        await expect(shoes.get_by_label("Size")).to_have_value("39")
        texts = ["An order", "Shirt?", "Shoes?", "Size: 42"]
        unready = re.compile(r"/(visit|inputs)$")
        await page.route(unready, lambda route: route.fulfill(status=503, json={"message": "Not now."}))
        await page.reload()
        await expect(page.get_by_role("alert")).to_have_text("Not now.")
        await expect(again).to_be_enabled()
        await expect(page.get_by_role("button", name="Stop")).to_have_count(0)
        await page.unroute(unready)
        await expect(page.get_by_role("heading")).not_to_be_empty()
        await expect(shown).to_have_text([*texts, "Shoes?"])  # the server was asked again
        await expect(page.get_by_role("alert")).to_have_count(0)
        async with page.context.expect_page() as opening:
            await page.evaluate("window.open(location.href)")
        other = await opening.value
        late = other.locator(".pause").filter(has_text="Shoes?")
        await late.get_by_label("Size").fill("41")
        await shoes.get_by_label("Size").fill("40")
        await shoes.get_by_role("button", name="Answer").click()
        end = ["Size: 40", re.compile("Shirt 42.*Shoes 40", re.DOTALL)]
        for _ in range(2):
            await expect(shown).to_have_text([*texts, "Shoes?", *end])
            await page.reload()
        await late.get_by_role("button", name="Answer").click()
        await expect(other.get_by_role("alert")).to_have_text("Your answer came too late: Size: 41")
        await expect(other.locator(".entry .plain, .entry .piece")).to_have_text([*texts, "Shoes?", *end])
        await other.close()
        await ask(page, "Another")
        await expect(page.locator(".pause")).to_have_count(2)
        listed = (await server.get(f"/agents/{agent}/sessions"))["data"]
        assert len(listed) == 1

        await again.click()
        await page.reload()
        await expect(page.get_by_role("textbox", name="Your message")).to_be_enabled()
        await expect(again).to_be_disabled()
        await ask(page, "A third")
        await expect(page.locator(".pause")).to_have_count(2)
        for row in (await server.get(f"/agents/{agent}/sessions"))["data"]:
            await native(server, agent).delete(f"/sessions/{row['id']}")
        await page.reload()
        await expect(again).to_be_disabled()
        await expect(page.get_by_role("textbox", name="Your message")).to_be_enabled()

        await page.goto(f"{server.url}/chat/{teller}?auth={key}")  # where this visitor has another conversation
        await ask(page, "A story")
        await expect(page.locator(".message.assistant")).to_contain_text("Once upon")
        await page.reload()  # which ends the turn
        await page.get_by_role("button", name="Continue").click()
        await expect(page.locator(".message.assistant").last).to_have_text("A time.")
        await ask(page, "Another")
        await expect(page.locator(".error-card")).to_be_visible()
        await page.reload()
        await expect(page.locator(".message.user")).to_have_text(["A story", "Another"])
        await again.click()
        await ask(page, "A song")  # the first message fails
        failure = "The agent failed. Its owner can see the reason."
        await expect(page.locator(".error-card")).to_contain_text(failure)
        await page.reload()
        await expect(page.locator(".error-card")).to_contain_text(failure)
        await expect(page.locator(".message.user")).to_have_text(["A song"])
        opened.expected += ["status of 404", "status of 503"]


async def contrast(frame: FrameLocator, place: str) -> float:
    """Return the contrast of a text with the nearest ground under it."""
    return await frame.locator(place).first.evaluate(
        """(element) => {
            const read = (colour) => {
                const pen = document.createElement("canvas").getContext("2d");
                pen.fillStyle = colour;
                pen.fillRect(0, 0, 1, 1);
                return [...pen.getImageData(0, 0, 1, 1).data];
            };
            const lightness = ([...channels]) => channels.slice(0, 3).map((value) => value / 255)
                .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4))
                .reduce((sum, value, at) => sum + value * [0.2126, 0.7152, 0.0722][at], 0.05);
            let ground = element;
            while (read(getComputedStyle(ground).backgroundColor)[3] < 255) ground = ground.parentElement;
            const colours = [getComputedStyle(element).color, getComputedStyle(ground).backgroundColor];
            const both = colours.map(read).map(lightness);
            return Math.max(...both) / Math.min(...both);
        }"""
    )


async def test_a_chat_has_the_look_of_its_site_and_visitors_stop_continue_and_begin_again(
    browser: Browser, tmp_path: Path
) -> None:
    replies = [
        Reply(chunks=["Once upon"], hangs=True),
        Reply("[A time](https://example.com)."),
        *[Reply(error="host 4711")] * 9,
    ]
    async with open_shop(browser, tmp_path, MODEL, replies, look="&accent=%23ffd400&theme=light") as shop:
        _, shown, frame = shop
        page = shown.page
        await page.emulate_media(color_scheme="dark")
        await ask(frame, "A story")
        await expect(frame.locator(".message.assistant")).to_contain_text("Once upon")
        await frame.get_by_role("button", name="Stop").click()
        await frame.get_by_role("button", name="Continue").click()
        await expect(frame.locator(".message.assistant")).to_have_text(["Once upon", "A time."])
        await expect(frame.locator(".message.user")).to_have_text(["A story"])
        send = frame.get_by_role("button", name="Send")
        await expect(send).to_have_css("background-color", "rgb(255, 212, 0)")
        for theme, ground in (("light", "rgb(255, 255, 255)"), ("dark", "rgb(22, 24, 29)")):
            await expect(frame.locator(".chat")).to_have_css("background-color", ground)
            for place in (".message a", ".message.user", ".primary", "h1"):
                assert await contrast(frame, place) >= 4.5, (theme, place)
            await page.frames[1].evaluate("() => { document.documentElement.dataset.theme = 'dark'; }")
        await ask(frame, "Another")
        card = frame.locator(".error-card")
        await expect(card).to_contain_text("The agent failed. Its owner can see the reason.")
        await expect(card).to_contain_text("If it fails again, tell those who run this page.")
        await expect(card.get_by_role("link")).to_have_count(0)
        assert "4711" not in await page.frames[1].content()
        await frame.get_by_role("button", name="New conversation").click()
        await expect(frame.locator(".message")).to_have_count(0)
        await expect(frame.get_by_role("button", name="New conversation")).to_be_disabled()


async def test_a_site_that_is_not_listed_shows_no_frame(browser: Browser, tmp_path: Path) -> None:
    async with open_shop(browser, tmp_path, MODEL, [], is_listed=False) as (server, shown, frame):
        await expect(frame.get_by_role("textbox")).to_have_count(0)
        assert "frame-ancestors" in " ".join(shown.problems)
        shown.expected.append("frame-ancestors")
        async with httpx.AsyncClient(base_url=server.url) as client:
            policy = (await client.get(f"/chat/{'0' * 32}")).headers["content-security-policy"]
            assert policy.endswith("frame-ancestors 'self'")
            assert "frame-ancestors 'none'" in (await client.get("/page")).headers["content-security-policy"]
            assert (await client.get("/chat/../page")).headers["content-security-policy"].endswith("'none'")


async def test_the_chat_says_what_is_wrong_with_its_address(browser: Browser, tmp_path: Path) -> None:
    async with start_app(tmp_path) as server, visit(browser, server.url, "") as shown:
        page, agent = shown.page, await server.agent(MODEL)
        await page.goto(f"{server.url}/chat/{agent}")
        await expect(page.get_by_role("alert")).to_contain_text("auth")
        await page.goto(f"{server.url}/chat/{agent}?auth={server.key}")  # the key of a program opens no page
        await expect(page.get_by_role("alert")).to_contain_text("API key is invalid")
