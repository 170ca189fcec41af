"""The HTTP server as its properties say."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from lethe.adapters.config_http import HttpConfig
from lethe.adapters.http import HttpServer, Route, serve_http


@asynccontextmanager
async def serve_configured(config: HttpConfig, routes: Sequence[Route]) -> AsyncIterator[HttpServer]:
    """Serve the routes until the block is left. Raises AddressUnavailable."""
    async with serve_http(
        config.host,
        config.port,
        routes,
        names=config.allowed_hosts,
        access=config.access(),
        tls=None if config.tls is None else config.tls.server_context,
    ) as server:
        yield server
