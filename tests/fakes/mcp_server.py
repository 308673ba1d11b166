"""A real MCP server, built with the SDK: ``python -m tests.fakes.mcp_server [PORT]``.

Without a port it uses stdio; with one it serves streamable HTTP at ``/mcp`` and SSE at ``/sse``.
"""

import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING, Any, TypeAlias

import mcp
from mcp.types import TextContent

if TYPE_CHECKING or hasattr(mcp, "McpError"):
    from mcp.server.fastmcp import Context, FastMCP, Image
    from mcp.server.fastmcp.exceptions import ToolError

    AnyContext: TypeAlias = Context[Any, Any, Any]
else:  # version 2
    from mcp.server.mcpserver import Context as AnyContext
    from mcp.server.mcpserver import Image
    from mcp.server.mcpserver import MCPServer as FastMCP
    from mcp.server.mcpserver.exceptions import ToolError

server = FastMCP("fake", log_level="ERROR")
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360000000020001"
    "e221bc330000000049454e44ae426082"
)
cancelled: list[str] = []


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool(structured_output=False)
def texts(count: int) -> Any:
    return [TextContent(type="text", text=f"text {index}") for index in range(count)]


@server.tool()
def fail(why: str) -> str:
    raise ToolError(why)


@server.tool(structured_output=False)
def nothing() -> Any:
    return []


@server.tool(structured_output=False)
def picture() -> Any:
    return Image(data=PIXEL, format="png")


@server.tool(structured_output=False)
def picture_and_text() -> Any:
    return [Image(data=PIXEL, format="png"), "a pixel"]


@server.tool()
async def slow(seconds: float, name: str = "") -> str:
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        cancelled.append(name)
        raise
    return f"slept {name}"


@server.tool()
def which_were_cancelled() -> str:
    return ",".join(cancelled)


@server.tool()
def huge(size: int) -> str:
    return "x" * size


@server.tool()
def die() -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return ""


@server.tool()
def forget() -> str:
    """Forget every HTTP session."""
    getattr(server.session_manager, "_server_instances").clear()  # noqa: B009 (no public method)
    return ""


@server.tool()
def process() -> str:
    return str(os.getpid())


@server.tool()
def environment() -> str:
    return " ".join(sorted(f"{name}={value}" for name, value in os.environ.items()))


@server.tool()
def headers(ctx: AnyContext) -> str:
    """Return the headers of the request."""
    request = ctx.request_context.request
    assert request is not None
    return "\n".join(f"{name}: {value}" for name, value in request.headers.items())


def serve() -> None:
    """Serve both HTTP transports on one port."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.responses import PlainTextResponse, RedirectResponse
    from starlette.routing import Route

    streamable = server.streamable_http_app()

    async def deny(request: Any) -> PlainTextResponse:
        return PlainTextResponse("no token", 401)

    async def away(request: Any) -> RedirectResponse:
        return RedirectResponse("http://169.254.169.254/mcp", 307)

    every = ["GET", "POST", "DELETE"]
    own = [Route("/deny", deny, methods=every), Route("/away", away, methods=every)]
    app = Starlette(
        routes=[*own, *streamable.routes, *server.sse_app().routes], lifespan=streamable.router.lifespan_context
    )
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error", timeout_graceful_shutdown=1)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        serve()
    else:
        server.run("stdio")
