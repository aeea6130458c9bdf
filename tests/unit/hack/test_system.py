"""The roles of vcsync as processes of a test: roles that end by themselves are restarted."""

import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hack.system import System


class Commands(System):
    """A system whose namespace scheduler ends immediately, while the pod scheduler runs."""

    def command(self, role: str) -> tuple[str, ...]:
        return ("sh", "-c", "echo no meta cluster; exit 1") if role == "nsscheduler" else ("sleep", "600")


def test_a_role_that_has_ended_by_itself_is_restarted_and_reported(tmp_path: Path) -> None:
    bed: Any = SimpleNamespace(supers={}, clusters={})
    system = Commands(bed, tmp_path)
    try:
        for role in system.role_names:
            system.spawn(role)
        works, failed = system.pid("podscheduler"), system.pid("nsscheduler")
        ended = next(found for _ in itertools.count() if (found := system.revive()))
        assert ended == ["nsscheduler has ended:\nno meta cluster"]
        assert system.pid("podscheduler") == works
        assert system.pid("nsscheduler") != failed
    finally:
        system.stop()
