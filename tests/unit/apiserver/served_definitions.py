"""Waits for what a control plane does later, and the path of definitions."""

import asyncio

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def until(done):
    """Wait until a condition holds."""
    async with asyncio.timeout(20):
        while not await done():
            await asyncio.sleep(0.01)
