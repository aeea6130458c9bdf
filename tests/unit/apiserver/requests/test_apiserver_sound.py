"""Background tasks of the server do not end silently."""

import asyncio
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from vcsync.apiserver.assembly.server import ControlPlane


async def for_ever() -> None:
    await asyncio.Event().wait()


async def failing() -> None:
    raise ValueError("a defect")


async def ending() -> None:
    return


def control_plane(other: Any) -> ControlPlane:
    cacher = Mock(start=AsyncMock(), run=for_ever)
    server = Mock(start=AsyncMock(), stop=AsyncMock())
    return ControlPlane(cacher, server, AsyncMock(), for_ever, (other,))


@pytest.mark.parametrize(
    ("other", "error", "said"),
    [(failing, ValueError, "a defect"), (ending, RuntimeError, "ended by itself")],
)
async def test_a_background_task_that_ends_is_reported(other: Any, error: type[Exception], said: str) -> None:
    plane = control_plane(other)
    await plane.start("127.0.0.1", 0, None)
    with pytest.raises(error, match=said):
        await plane.sound()
    await plane.stop()


async def test_running_background_tasks_are_not_reported() -> None:
    plane = control_plane(for_ever)
    await plane.start("127.0.0.1", 0, None)
    sound = asyncio.create_task(plane.sound())
    await asyncio.sleep(0)
    assert not sound.done()
    await plane.stop()
    sound.cancel()
    await asyncio.wait([sound])
