"""The control plane under attack of each module; after every case it must still serve, and the victim be unchanged."""

from collections.abc import Iterator

import pytest

from hack.attacks.world import World
from hack.attacks.world import world as open_world


@pytest.fixture(scope="module")
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A control plane with an attacker and a victim, which must end cleanly; ARGUMENTS of a module are its options."""
    arguments: tuple[str, ...] = getattr(request.module, "ARGUMENTS", ())
    with open_world(tmp_path_factory.mktemp("attacks"), *arguments) as found:
        yield found
        assert found.plane.stop() == 0


@pytest.fixture(autouse=True)
def unharmed(world: World) -> Iterator[None]:
    """Check after every case that it did no harm."""
    yield
    assert world.problems() == []
