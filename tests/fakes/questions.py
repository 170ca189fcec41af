"""Users who answer every question in the same way."""

from __future__ import annotations


async def agrees(_: str) -> bool:
    return True


async def declines(_: str) -> bool:
    return False
