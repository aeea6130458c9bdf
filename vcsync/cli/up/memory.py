"""Options and registrations of `vcsync up`, stored in its data folder for the next start."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

from vcsync.cli.command.errors import WrongInputError
from vcsync.cli.registration.install import write_private
from vcsync.cli.up.members import Members

FILE = "up.yaml"
_HEAD = """\
# Written by 'vcsync up'. `options`: options of earlier starts; options of this start or of a settings file have precedence.
# `registered`: all members that were ever registered here. A member that is no longer registered was removed, and is not
# added again until an option names it.
"""


class Registered(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Names of everything that was registered."""

    tenants: tuple[str, ...] = ()
    super_clusters: tuple[str, ...] = ()


class Memory(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The stored memory. `options`: by the option's name without dashes, as given."""

    options: dict[str, str | int | list[str]] = {}
    registered: Registered = Registered()


class Past(msgspec.Struct, frozen=True):
    """Knowledge of earlier starts. `named`: names in the current options. `changed`: the differences, as lines."""

    memory: Memory = Memory()
    named: Registered = Registered()
    changed: tuple[str, ...] = ()


FIRST_START = Past()


def read(folder: Path) -> Memory:
    """Return the memory of a data folder; empty for a new one.

    Raises:
        WrongInputError: the file is damaged.
    """
    path = folder / FILE
    try:
        return msgspec.convert(yaml.safe_load(path.read_text(encoding="utf-8")), Memory)
    except FileNotFoundError:
        return Memory()
    except (msgspec.ValidationError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise WrongInputError(
            f"{path}: {error}; correct it, or delete it to begin with the defaults"
        ) from error


def write(folder: Path, memory: Memory) -> None:
    """Write the memory atomically."""
    text = yaml.safe_dump(msgspec.to_builtins(memory), sort_keys=True)
    write_private(folder / FILE, (_HEAD + text).encode())


def recalled(
    memory: Memory, values: Mapping[str, Any], given: Collection[str]
) -> tuple[dict[str, Any], Memory, list[str]]:
    """Return the effective values, the values to remember, and the changes as lines. Pure.

    Args:
        memory: memory of the last start.
        values: values of all remembered options, by name: as given, or their defaults.
        given: names of the options of this command line or of a settings file.
    """
    before = {name: memory.options.get(name, value) for name, value in values.items()}
    now = {name: values[name] if name in given else before[name] for name in values}
    kept = memory.options | {name: _plain(values[name]) for name in values if name in given}
    changes = [
        f"--{name} {_shown(now[name])}, before {_shown(memory.options[name])}"
        for name in values
        if name in memory.options and _plain(now[name]) != memory.options[name]
    ]
    return now, msgspec.structs.replace(memory, options=kept), changes


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _shown(value: Any) -> str:
    return ",".join(value) if isinstance(value, list | tuple) else str(value) if value != "" else "''"


def without_removed(
    members: Members, memory: Memory, there: Registered, named: Registered
) -> tuple[Members, list[str]]:
    """Leave out members that were registered once, are no longer registered, and are not named now. Pure.

    Args:
        members: the wanted members.
        memory: members that were registered once.
        there: registered members.
        named: members that an option names now.
    """
    gone = (set(memory.registered.super_clusters) - set(there.super_clusters)) - set(named.super_clusters)
    left = (set(memory.registered.tenants) - set(there.tenants)) - set(named.tenants)
    lines = [
        f"super cluster {name} was removed and stays removed; to add it again, give --hollow {name} or --super-cluster"
        for name in (*members.hollow, *members.real)
        if name in gone
    ]
    lines += [
        f"tenant {name} was removed and stays removed; to add it again, give --tenants {name}"
        for name in members.tenants
        if name in left
    ]
    started = {*members.hollow, *members.real}
    lines += [
        f"super cluster {name} is in the pool, but nothing simulates it: 'vcsync super remove {name}' removes it, "
        f"--hollow starts it"
        for name in there.super_clusters
        if name in memory.registered.super_clusters and name not in started
    ]
    rest = Members(
        tuple(name for name in members.tenants if name not in left),
        tuple(name for name in members.hollow if name not in gone),
        {name: admin for name, admin in members.real.items() if name not in gone},
        members.limits,
    )
    return rest, lines


def with_members(memory: Memory, members: Members) -> Memory:
    """Return the memory with these members added to the registered ones. Pure."""
    old = memory.registered
    now = Registered(
        tenants=tuple(sorted({*old.tenants, *members.tenants})),
        super_clusters=tuple(sorted({*old.super_clusters, *members.hollow, *members.real})),
    )
    return msgspec.structs.replace(memory, registered=now)
