"""An API of a shop, built with FastAPI, whose own OpenAPI document describes it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Body, Cookie, Depends, FastAPI, Form, Header, HTTPException, Query, Response
from fastapi.security import APIKeyHeader
from pydantic import BaseModel

from ragflow_lg.server.http.edge.uvicorn_server import open_socket, start_server

KEY = "key-of-the-shop-4711"


class Part(BaseModel):
    """A part of an order, which may contain parts."""

    name: str
    count: int = 1
    parts: list["Part"] = []


class Order(BaseModel):
    """An order."""

    customer: str
    parts: list[Part] = []
    note: str | None = None


def make_shop() -> FastAPI:
    """Return the API; ``state.orders`` are the orders."""
    app = FastAPI(title="Shop")
    app.state.orders = list[Any]()

    def authenticated(key: Annotated[str, Depends(APIKeyHeader(name="X-Key"))]) -> None:
        if key != KEY:
            raise HTTPException(401, f"wrong key {key}")

    @app.get("/orders/{number}", operation_id="getOrder", dependencies=[Depends(authenticated)])
    async def get_order(number: str, with_parts: bool = False) -> dict[str, Any]:
        """Return an order."""
        if number == "0":
            raise HTTPException(404, "no such order")
        return {"number": number, "with_parts": with_parts}

    @app.post("/orders", operation_id="addOrder", dependencies=[Depends(authenticated)])
    async def add_order(order: Order) -> dict[str, Any]:
        """Add an order."""
        app.state.orders.append(order.model_dump())
        return {"number": len(app.state.orders)}

    @app.get("/search")
    async def search(
        words: Annotated[list[str], Query()],
        x_team: Annotated[str, Header()] = "",
        basket: Annotated[str, Cookie()] = "",
    ) -> dict[str, Any]:
        return {"words": words, "team": x_team, "basket": basket}

    @app.post("/login", operation_id="login")
    async def login(user: Annotated[str, Form()], groups: Annotated[list[str], Form()]) -> dict[str, Any]:
        return {"user": user, "groups": groups}

    @app.put("/notes/{name}", operation_id="setNote")
    async def set_note(name: str, text: Annotated[str, Body(media_type="text/plain")]) -> str:
        return f"{name}: {text}"

    @app.get("/logo", operation_id="logo")
    async def logo() -> Response:
        return Response(b"\x89PNG\x00", media_type="image/png")

    @app.get("/flood", operation_id="flood")
    async def flood() -> Response:
        return Response("x" * 2_000_000, media_type="text/plain")

    return app


@asynccontextmanager
async def shop() -> AsyncGenerator[tuple[str, FastAPI]]:
    """Start the API; yield its address and the app."""
    app = make_shop()

    async def drain() -> None:
        """Wait for nothing."""

    async with start_server(app, open_socket("127.0.0.1", 0), drain, 1) as address:
        yield address, app
