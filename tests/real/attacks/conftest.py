"""The world of each module of attacks; whatever a case did, the process serves and the victim has what it had."""

from collections.abc import Iterator

import pytest

from hack.attacks.world import World
from hack.attacks.world import world as open_world


@pytest.fixture(scope="module")
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A control plane with an attacker and a victim; it ends cleanly. A module's ARGUMENTS go to its command."""
    arguments: tuple[str, ...] = getattr(request.module, "ARGUMENTS", ())
    with open_world(tmp_path_factory.mktemp("attacks"), *arguments) as found:
        yield found
        assert found.plane.stop() == 0


@pytest.fixture(autouse=True)
def unharmed(world: World) -> Iterator[None]:
    """Look after every case whether it did any harm."""
    yield
    assert world.problems() == []
