"""Random histories of one workload, each the same for the same seed. Pure."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from vcsync.kube.resources import Resource

Generate = Callable[[random.Random], "Iterator[Step]"]
IMAGES = ("one", "two", "three")
BROKEN = "broken"
"""Pods of this image never become ready."""
NAME = "web"
LABELS = {"app": NAME}


@dataclass(frozen=True)
class Write:
    """One change of any object: created, patched or, without either, deleted. `@` in it stands for the namespace."""

    resource: Resource
    name: str
    create: dict[str, Any] | None = None
    patch: dict[str, Any] | None = None


@dataclass(frozen=True)
class Step:
    """One step of a history.

    Attributes:
        text: description for people.
        patch: merge patch of the workload; None: no change.
        create: the whole workload.
        kubelet: action of the simulated kubelet: `fail`, `succeed` or `delete`, and the number of Pods; `finish`: every
            Pod succeeds from now on.
        writes: changes of other objects.
    """

    text: str
    patch: dict[str, Any] | None = None
    create: dict[str, Any] | None = None
    kubelet: tuple[str, int] | None = None
    writes: tuple[Write, ...] = ()


@dataclass(frozen=True)
class Story:
    """The history of one workload, `kind` in its API group.

    Attributes:
        hasty: whether a step does not wait for the effects of the previous one. Only the end is compared, which does not
            depend on intermediate states.
    """

    seed: int
    kind: str
    steps: tuple[Step, ...]
    hasty: bool = False

    def __str__(self) -> str:
        return f"{self.kind} {self.seed}{' in haste' if self.hasty else ''}"


@dataclass
class _Rollout:
    """The templates that a workload had, the newest last, in the order of its revisions."""

    images: list[str] = field(default_factory=list)
    paused: bool = False

    def set(self, image: str) -> None:
        if image in self.images:
            self.images.remove(image)
        self.images.append(image)

    @property
    def before(self) -> str | None:
        return self.images[-2] if len(self.images) > 1 else None


def story(seed: int, kind: str, steps: int = 8) -> Story:
    """Return the history of a seed: of a Deployment, a StatefulSet or a Job."""
    return of(seed, kind, {"Deployment": _deployment, "StatefulSet": _stateful_set, "Job": _job}[kind], steps)


def of(seed: int, kind: str, generate: Generate, steps: int) -> Story:
    """Return a history whose steps a function generates from a seeded source of randomness."""
    generated = generate(random.Random(f"{kind}-{seed}"))  # noqa: S311 - a story, no secret
    return Story(seed, kind, tuple(next(generated) for _ in range(steps + 1)))


def hasty(seed: int, kind: str, steps: int = 12) -> Story:
    """Return a history without pauses, of a Deployment or a StatefulSet."""
    changes = [
        each for each in story(seed, kind, steps).steps if kind == "Deployment" or BROKEN not in each.text
    ]
    spec: dict[str, Any] = {"replicas": 1 + seed % 5, **_of_image(IMAGES[seed % len(IMAGES)])["spec"]}
    if kind == "Deployment":
        spec["paused"] = False
    else:
        spec["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
    return Story(seed, kind, (*changes, Step("end", {"spec": spec})), hasty=True)


def _template(image: str) -> dict[str, Any]:
    container = {"name": "main", "image": image}
    return {
        "metadata": {"labels": LABELS},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]},
    }


def _of_image(image: str) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}}


def _image(chance: random.Random, rollout: _Rollout) -> Step:
    image = chance.choice([*(each for each in IMAGES if each != rollout.images[-1]), BROKEN])
    rollout.set(image)
    return Step(f"image {image}", _of_image(image))


def _undo(chance: random.Random, rollout: _Rollout) -> Step:
    image = rollout.before
    if image is None:
        return _image(chance, rollout)
    rollout.set(image)
    return Step(f"undo, to {image}", _of_image(image))


def _scale(chance: random.Random, most: int = 7) -> Step:
    count = chance.randint(0, most)
    return Step(f"scale to {count}", {"spec": {"replicas": count}})


def _pods(what: str, chance: random.Random, most: int = 2) -> Step:
    count = chance.randint(1, most)
    return Step(f"{what} {count}", kubelet=(what, count))


def _deployment(chance: random.Random) -> Iterator[Step]:
    rollout = _Rollout()
    rollout.set(chance.choice(IMAGES))
    spec = {
        "replicas": chance.randint(0, 6),
        "selector": {"matchLabels": LABELS},
        "template": _template(rollout.images[-1]),
        "strategy": _strategy(chance),
        "revisionHistoryLimit": chance.choice((0, 1, 2, 10)),
    }
    yield Step(f"Deployment {spec['replicas']} {spec['strategy']}", create=spec)
    moves: list[Callable[[], Step]] = [
        lambda: _image(chance, rollout),
        lambda: _image(chance, rollout),
        lambda: _scale(chance),
        lambda: _scale(chance),
        lambda: _undo(chance, rollout),
        lambda: _paused(rollout),
        lambda: _pods("fail", chance),
        lambda: _pods("delete", chance),
        lambda: Step("strategy", {"spec": {"strategy": _strategy(chance)}}),
    ]
    while True:
        yield chance.choice(moves)()


def _paused(rollout: _Rollout) -> Step:
    """Pause a running workload, or resume a paused one."""
    rollout.paused = not rollout.paused
    return Step("pause" if rollout.paused else "resume", {"spec": {"paused": rollout.paused}})


def _strategy(chance: random.Random) -> dict[str, Any]:
    if chance.random() < 0.2:
        return {"type": "Recreate", "rollingUpdate": None}
    surge, unavailable = chance.choice(((1, 0), (0, 1), (2, 1), ("25%", "25%"), ("100%", "50%"), (3, 3)))
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


def _stateful_set(chance: random.Random) -> Iterator[Step]:
    rollout = _Rollout()
    rollout.set(chance.choice(IMAGES))
    spec: dict[str, Any] = {
        "replicas": chance.randint(0, 4),
        "serviceName": NAME,
        "selector": {"matchLabels": LABELS},
        "template": _template(rollout.images[-1]),
        "podManagementPolicy": chance.choice(("OrderedReady", "Parallel")),
        "revisionHistoryLimit": chance.choice((0, 1, 10)),
    }
    if chance.random() < 0.3:
        spec["ordinals"] = {"start": chance.randint(1, 3)}
    if chance.random() < 0.3:
        spec["updateStrategy"] = {"type": "OnDelete"}
    if chance.random() < 0.4:
        spec |= _claims(chance)
    yield Step(f"StatefulSet {spec['replicas']} {spec['podManagementPolicy']}", create=spec)
    moves: list[Callable[[], Step]] = [
        lambda: _image(chance, rollout),
        lambda: _scale(chance, 5),
        lambda: _scale(chance, 5),
        lambda: _undo(chance, rollout),
        lambda: _pods("fail", chance),
        lambda: _pods("delete", chance),
    ]
    if "updateStrategy" not in spec:
        moves.append(lambda: _partition(chance))
    while True:
        yield chance.choice(moves)()


def _partition(chance: random.Random) -> Step:
    partition = chance.randint(0, 4)
    update = {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}
    return Step(f"partition {partition}", {"spec": {"updateStrategy": update}})


def _claims(chance: random.Random) -> dict[str, Any]:
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "absent",  # No volume of another history belongs to this one.
        },
    }
    choices = ("Retain", "Delete")
    retention = {"whenDeleted": chance.choice(choices), "whenScaled": chance.choice(choices)}
    return {"volumeClaimTemplates": [claim], "persistentVolumeClaimRetentionPolicy": retention}


def _job(chance: random.Random) -> Iterator[Step]:
    completions = chance.randint(1, 5)
    template = _template("one")
    template["spec"]["restartPolicy"] = "Never"
    spec: dict[str, Any] = {
        "parallelism": chance.randint(1, 4),
        "completions": completions,
        "backoffLimit": chance.choice((0, 1, 2, 6)),
        "template": template,
        "suspend": chance.random() < 0.2,
    }
    if chance.random() < 0.5:
        spec["completionMode"] = "Indexed"
        if chance.random() < 0.5:
            spec |= {
                "backoffLimitPerIndex": chance.randint(0, 1),
                "maxFailedIndexes": chance.randint(0, completions),
            }
            del spec["backoffLimit"]
        if chance.random() < 0.3:
            spec["successPolicy"] = {"rules": [{"succeededCount": chance.randint(1, completions)}]}
    if chance.random() < 0.3:
        action = chance.choice(("FailJob", "Ignore", "Count"))
        codes = {"operator": "In", "values": [1]}
        spec["podFailurePolicy"] = {"rules": [{"action": action, "onExitCodes": codes}]}
    about = {
        name: spec.get(name) for name in ("parallelism", "completions", "backoffLimit", "completionMode")
    }
    yield Step(f"Job {about}", create=spec)
    # One success may be enough: whether a second one still counts would be random.
    at_once = 1 if "successPolicy" in spec else 2
    moves: list[Callable[[], Step]] = [
        lambda: _pods("succeed", chance, at_once),
        lambda: _pods("succeed", chance, at_once),
        lambda: _pods("fail", chance, 1),
        lambda: Step("suspend", {"spec": {"suspend": True}}),
        lambda: Step("resume", {"spec": {"suspend": False}}),
    ]
    if "completionMode" not in spec:  # The choice of deleted indexes, if any, is random.
        moves.append(lambda: Step("parallelism", {"spec": {"parallelism": chance.randint(0, 4)}}))
    for _ in range(chance.randint(2, 5)):
        yield chance.choice(moves)()
    yield Step("resume", {"spec": {"suspend": False, "parallelism": 4}})
    while True:
        yield Step("finish", kubelet=("finish", 0))
