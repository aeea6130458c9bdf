"""Objects with odd names: accepted ones can be listed, read and deleted; none remains that grants permissions."""

import json
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from hack.attacks.case import DEFAULT, GROUP, RBAC, Case, Scene, wrong

NAMES = (
    "\U0010ffff", "\U0010ffff\U0010ffff", "\U0010fffe", "a\U0010ffff", "\uffff", "\ufffd", "\ue000", "\ud7ff", "\x7f", "\x80", "\xff", "~", "~~~",
    "\0", "a\0", "\0a", "a\0b", "a\n", "\n", "\r\n", "\t", " ", "  a", "a ", "\x01", "\x1f", "\x85", "\u00a0", "\u2028", "\u202e", "\u200b", "\ufeff",
    "?", "#", "a?b=c", "a#b", "&", "=", ";", ",", ":", "@", "!", "$", "'", '"', "`", "\\", "\\..\\", "|", "<", ">", "{}", "[]", "^", "*", "+", "(", "-",
    ".", "..", "...", "/", "a/b", "%", "%00", "%2e", "a%2fb", "system:masters\0", "system:masters", "SYSTEM:ADMIN", "\u0410dmin", "\uff41dmin", "e\u0301", "\u00e9",
    "x" * 253, "x" * 4000, "x" * 4097, "x" * 9000, "\u00e9" * 1500, "\U0010ffff" * 300, "0", "-1", "null", "true", "NaN", "..namespaces", "core", "~claims", "all",
)  # fmt: skip
KINDS: dict[str, dict[str, Any]] = {
    "clusterroles": {"rules": []},
    "namespaces/default/roles": {"rules": []},
    "clusterrolebindings": {"roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "view"},
                            "subjects": [{"apiGroup": GROUP, "kind": "User", "name": "stranger"}]},
}  # fmt: skip
LABEL = {"attack": "names"}
LAST = "\U0010ffff"
"""Sorts after all other names; the end of a range must include it."""


def cases() -> Sequence[Case]:
    """Create each name for each kind that allows any name, and for some that do not."""
    found = [_named(plural, name) for plural in KINDS for name in NAMES]
    return found + [_strict(name) for name in NAMES if not _plain(name)]


def _plain(name: str) -> bool:
    return (
        len(name) <= 253
        and name.isascii()
        and name.replace("-", "").isalnum()
        and name == name.lower()
        and name[0] != "-"
    )


def _strict(name: str) -> Case:
    """Names of ConfigMaps must be DNS names."""

    def attack(scene: Scene) -> list[str]:
        return wrong(
            scene.attacker.ask("POST", f"{DEFAULT}/configmaps", {"metadata": {"name": name}}),
            frozenset({422}),
        )

    return Case(f"configmaps {_shown(name)}", attack)


def _named(plural: str, name: str) -> Case:
    place = f"{RBAC}/{plural}"

    def attack(scene: Scene) -> Iterator[str]:
        door, path = scene.attacker, f"{place}/{quote(name, safe='')}"
        made = door.ask("POST", place, {"metadata": {"name": name, "labels": LABEL}, **KINDS[plural]})
        if made.status != 201:
            yield from wrong(made, frozenset({400, 422}))
            return
        listed = door.ask("GET", f"{place}?labelSelector=attack%3Dnames")
        if name not in [each["metadata"]["name"] for each in listed.json["items"]]:
            yield "it exists and is not listed"
        read = door.ask("GET", path)
        if read.status != 200 or read.json["metadata"]["name"] != name:
            yield f"it cannot be read: {read.status} {read.message}"
        yield from wrong(door.ask("DELETE", f"{place}?labelSelector=attack%3Dnames"), frozenset({200}))
        if door.ask("GET", path).status != 404:
            yield "it survives the deletion of its collection"
            door.ask("DELETE", path)

    return Case(f"{plural} {_shown(name)}", attack, always=name == LAST)


def _shown(name: str) -> str:
    return json.dumps(name)[:40]
