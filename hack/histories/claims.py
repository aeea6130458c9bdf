"""Random histories of volumes and claims. Pure.

Each slot has one claim at a time, and all volumes of a slot differ in size, so that the bindings are deterministic.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from hack.histories.stories import Step, Write
from vcsync.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES

CLASSES = ("", "@-fast", "@-late")
"""The volumes of each slot; `@` stands for the namespace."""
MODES = (["ReadWriteOnce"], ["ReadOnlyMany", "ReadWriteOnce"])


@dataclass
class _Slot:
    index: int
    volumes: list[str] = field(default_factory=list)
    claim: str = ""
    claims: int = 0

    @property
    def next_claim(self) -> str:
        return f"c{self.index}-{self.claims}"


def claims(chance: random.Random) -> Iterator[Step]:
    """Yield the changes of volumes and claims."""
    yield Step("classes", writes=tuple(_classes()))
    sizes = iter(chance.sample(range(1, 60), 59))
    slots = [_Slot(index) for index in range(len(CLASSES))]
    while True:
        slot = chance.choice(slots)
        moves: list[Callable[[], Step]] = [
            lambda slot=slot: _volume(chance, slot, next(sizes), kept=False),  # type: ignore[misc]
            lambda slot=slot: _volume(chance, slot, next(sizes), kept=True),  # type: ignore[misc]
        ]
        if slot.claim:
            moves.append(lambda slot=slot: _without_claim(slot))  # type: ignore[misc]
        else:
            moves += [lambda slot=slot: _claim(chance, slot)] * 2  # type: ignore[misc]
        if slot.volumes:
            moves.append(lambda slot=slot: _without_volume(chance, slot))  # type: ignore[misc]
            moves.append(lambda slot=slot: _freed(chance, slot))  # type: ignore[misc]
        yield chance.choice(moves)()


def _classes() -> Iterator[Write]:
    for name, provisioner, mode in (
        (CLASSES[1], "example.com/disk", "Immediate"),
        (CLASSES[2], "kubernetes.io/no-provisioner", "WaitForFirstConsumer"),
    ):
        yield Write(STORAGE_CLASSES, name, create={"provisioner": provisioner, "volumeBindingMode": mode})


def _volume(chance: random.Random, slot: _Slot, size: int, *, kept: bool) -> Step:
    name = f"@-v{size}"
    slot.volumes.append(name)
    source = chance.choice(
        ({"nfs": {"server": "s", "path": "/"}}, {"csi": {"driver": "d", "volumeHandle": "h"}})
    )
    spec: dict[str, Any] = {
        "capacity": {"storage": f"{size}Gi"},
        "accessModes": chance.choice(MODES),
        "storageClassName": CLASSES[slot.index],
        "persistentVolumeReclaimPolicy": chance.choice(("Retain", "Delete")),
        **source,
    }
    if kept:
        spec["claimRef"] = {"namespace": "@", "name": slot.claim or slot.next_claim}
    body = {"metadata": {"labels": {"slot": f"@-{slot.index}"}}, "spec": spec}
    text = f"volume {size} in {slot.index}" + (" kept for its claim" if kept else "")
    return Step(text, writes=(Write(PERSISTENT_VOLUMES, name, create=body),))


def _claim(chance: random.Random, slot: _Slot) -> Step:
    slot.claim = slot.next_claim
    slot.claims += 1
    size = chance.randint(1, 40)
    spec: dict[str, Any] = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": f"{size}Gi"}},
        "storageClassName": CLASSES[slot.index],
        "selector": {"matchLabels": {"slot": f"@-{slot.index}"}},
    }
    if chance.random() < 0.25:
        spec["volumeName"] = chance.choice([*slot.volumes, "@-no-such"])
        del spec["selector"]
    named = f" that names {spec['volumeName']}" if "volumeName" in spec else ""
    text = f"claim {size} in {slot.index}{named}"
    return Step(text, writes=(Write(PERSISTENT_VOLUME_CLAIMS, slot.claim, create={"spec": spec}),))


def _without_claim(slot: _Slot) -> Step:
    name, slot.claim = slot.claim, ""
    return Step(f"without claim {name}", writes=(Write(PERSISTENT_VOLUME_CLAIMS, name),))


def _without_volume(chance: random.Random, slot: _Slot) -> Step:
    name = slot.volumes.pop(chance.randrange(len(slot.volumes)))
    return Step(f"without volume {name}", writes=(Write(PERSISTENT_VOLUMES, name),))


def _freed(chance: random.Random, slot: _Slot) -> Step:
    name = chance.choice(slot.volumes)
    patch = {"spec": {"claimRef": None}}
    return Step(f"volume {name} freed", writes=(Write(PERSISTENT_VOLUMES, name, patch=patch),))
