"""The memory of `vcsync up`: earlier options, and members that were removed."""

from pathlib import Path
from typing import Any

import pytest

from vcsync.cli.command.errors import WrongInputError
from vcsync.cli.up import memory as up_memory
from vcsync.cli.up.members import Members
from vcsync.cli.up.memory import Memory, Registered, recalled, with_members, without_removed

DEFAULTS: dict[str, Any] = {"tenants": "acme", "hollow": None, "super-cluster": [], "nodes": 3}


def start(memory: Memory, **given: Any) -> tuple[dict[str, Any], Memory, list[str]]:
    """Start with these options; return the effective values, the memory, and the changes."""
    options = {name.replace("_", "-"): value for name, value in given.items()}
    return recalled(memory, DEFAULTS | options, frozenset(options))


def test_an_option_applies_until_another_value_is_given() -> None:
    now, memory, lines = start(Memory(), nodes=10)
    assert (now["nodes"], now["tenants"], lines) == (10, "acme", [])
    now, memory, lines = start(memory)
    assert (now["nodes"], lines) == (10, [])
    now, memory, lines = start(memory, nodes=4, tenants="")
    assert (now["nodes"], now["tenants"], lines) == (4, "", ["--nodes 4, before 10"])
    now, memory, lines = start(memory, tenants="acme,umbrella")
    assert (now["nodes"], lines) == (4, ["--tenants acme,umbrella, before ''"])
    assert memory.options == {"nodes": 4, "tenants": "acme,umbrella"}


def test_defaults_are_not_remembered() -> None:
    _, memory, _ = start(Memory())
    assert memory == Memory()
    _, memory, _ = start(memory, super_cluster=["east=/east.kubeconfig"])
    assert memory.options == {"super-cluster": ["east=/east.kubeconfig"]}


def test_the_memory_is_read_back_from_the_folder(tmp_path: Path) -> None:
    assert up_memory.read(tmp_path) == Memory()
    memory = Memory(
        options={"nodes": 10, "super-cluster": ["east=/east.kubeconfig"], "tenants": ""},
        registered=Registered(tenants=("acme",), super_clusters=("r1", "r2")),
    )
    up_memory.write(tmp_path, memory)
    assert up_memory.read(tmp_path) == memory
    assert (tmp_path / "up.yaml").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("text", ["options: [", "colour: blue", "registered: {tenants: acme}", ""])
def test_a_damaged_memory_is_named_with_the_remedy(tmp_path: Path, text: str) -> None:
    (tmp_path / "up.yaml").write_text(text)
    with pytest.raises(
        WrongInputError, match=rf"(?s)^{tmp_path}/up\.yaml: .*delete it to begin with the defaults"
    ):
        up_memory.read(tmp_path)


MEMBERS = Members(("acme", "umbrella"), ("r1", "r2"), {}, {})
KNOWN = Memory(registered=Registered(tenants=("acme", "umbrella"), super_clusters=("r1", "r2", "r3")))


def left(there: Registered, named: Registered = Registered()) -> tuple[Members, list[str]]:  # noqa: B008  it is frozen
    return without_removed(MEMBERS, KNOWN, there, named)


def test_removed_members_stay_removed_and_are_reported() -> None:
    members, lines = left(Registered(tenants=("acme",), super_clusters=("r2",)))
    assert (members.tenants, members.hollow) == (("acme",), ("r2",))
    assert [line.split(" was removed")[0] for line in lines] == ["super cluster r1", "tenant umbrella"]
    assert "--hollow r1" in lines[0]


def test_a_member_that_is_named_again_is_added_again() -> None:
    there = Registered(tenants=("acme",), super_clusters=("r2",))
    assert left(there, Registered(tenants=("umbrella",), super_clusters=("r1",))) == (MEMBERS, [])


def test_a_new_member_does_not_count_as_removed() -> None:
    assert without_removed(MEMBERS, Memory(), Registered(), Registered()) == (MEMBERS, [])


def test_a_super_cluster_that_is_not_simulated_is_reported() -> None:
    everybody = Registered(tenants=("acme", "umbrella"), super_clusters=("other", "r1", "r2", "r3"))
    members, lines = left(everybody)
    assert members == MEMBERS
    assert len(lines) == 1
    assert lines[0].startswith(
        "super cluster r3 is in the pool, but nothing simulates it: 'vcsync super remove r3'"
    )


def test_all_registered_members_are_remembered() -> None:
    members = Members(("late",), ("r9",), {}, {})
    assert with_members(KNOWN, members).registered == Registered(
        tenants=("acme", "late", "umbrella"), super_clusters=("r1", "r2", "r3", "r9")
    )
