"""The parts of a chaos run that work without clusters: the spy, the killer, outages and users."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from hack.audit.keys import COPY_FINALIZER
from hack.chaos.actions import HOLDER
from hack.chaos.churn import ACTIONS, Churn
from hack.chaos.faults import Cutter, Etcd, Killer, Outages
from hack.chaos.moves import Moves
from hack.chaos.spy import owner_of, sighted
from hack.system import SystemFailed

MARKS = {"acme": (b"marker-acme-1",), "umbrella": (b"marker-umbrella-2",)}


def event(namespace: str, name: str, text: str = "") -> bytes:
    metadata = {"namespace": namespace, "name": name, "annotations": {"a": text}}
    return json.dumps({"type": "ADDED", "object": {"metadata": metadata}}).encode()


@pytest.mark.parametrize(
    ("line", "owner", "other"),
    [
        (event("shop", "web", "marker-acme-1"), "acme", None),
        (event("shop", "web", "marker-umbrella-2"), "acme", "umbrella"),
        (event("shop", "web", "nothing"), "acme", None),
        (event("shop", "marker-acme-1"), "umbrella", "acme"),
    ],
)
def test_the_spy_notices_data_of_another_tenant(line: bytes, owner: str, other: str | None) -> None:
    assert sighted(line, owner, MARKS) == other


def test_a_super_namespace_and_its_objects_belong_to_the_tenant_of_its_key() -> None:
    starts = {"vcsync-1-acme-": "acme", "vcsync-2-umbrella-": "umbrella"}
    assert owner_of(event("vcsync-2-umbrella-shop", "web"), starts) == "umbrella"
    assert owner_of(event("", "vcsync-1-acme-shop"), starts) == "acme"
    assert owner_of(event("kube-system", "web"), starts) is None


class PaperRoles:
    """Roles without processes; the first start of one of them fails."""

    role_names = ("nsscheduler", "podscheduler", "syncer-r1")

    def __init__(self) -> None:
        self.log: dict[str, list[str]] = {role: [] for role in self.role_names}
        self.ahead: dict[str, float] = {}
        self.clocks: set[float] = set()
        self._fails = 1

    def kill(self, role: str) -> str:
        self.log[role].append("kill")
        return "syncer-r1 had ended" if role == "syncer-r1" and len(self.log[role]) == 1 else ""

    def spawn(self, role: str) -> None:
        self.clocks.add(self.ahead[role])
        self.log[role].append("spawn")

    def wait_ready(self, role: str, timeout: float = 0) -> None:
        if role == "podscheduler" and self._fails:
            self._fails -= 1
            raise SystemFailed("podscheduler has ended")


async def test_the_killer_kills_every_role_as_often_as_asked_and_leaves_all_running() -> None:
    roles = PaperRoles()
    killer = Killer(roles, 1, longest_life=0.0, longest_absence=0.0)
    over = asyncio.Event()
    over.set()
    await killer.run(over, at_least=3)
    assert killer.kills == Counter(dict.fromkeys(roles.role_names, 3))
    for role, log in roles.log.items():
        assert log == ["kill", "spawn"] * (len(log) // 2)
        assert len(log) // 2 == killer.kills[role] + killer.kills_at_start[role]
    assert killer.ended == ["podscheduler has ended"]


async def test_a_role_that_ends_by_itself_counts_only_if_it_worked() -> None:
    over = asyncio.Event()
    over.set()
    found = []
    for seed in range(20):
        killer = Killer(PaperRoles(), seed, longest_life=0.0, longest_absence=0.0)
        await killer.run(over, at_least=1)
        worked = killer.kills_at_start["syncer-r1"] == 0  # its first kill is one at work
        assert killer.ended_at_work == (["syncer-r1 had ended"] if worked else [])
        found.append(worked)
    assert set(found) == {True, False}


async def test_roles_restart_with_any_of_the_clocks() -> None:
    roles = PaperRoles()
    over = asyncio.Event()
    over.set()
    killer = Killer(roles, 1, longest_life=0.0, longest_absence=0.0, clocks=(0.0, 3600.0, -3600.0))
    await killer.run(over, at_least=10)
    assert roles.clocks == {0.0, 3600.0, -3600.0}


class PaperMembers:
    """Members of an etcd without processes."""

    etcd_members = ("etcd", "etcd-2", "etcd-3")

    def __init__(self) -> None:
        self.lost: list[str] = []

    def stop_member(self, name: str) -> None:
        self.lost.append(name)

    def start_member(self, name: str) -> None:
        self.lost.remove(name)


def test_an_etcd_loses_one_member_or_most_and_all_are_restarted() -> None:
    members = PaperMembers()
    etcd = Etcd(members, 1)
    lost = []
    for _ in range(30):
        etcd.kill("kube-apiserver")
        assert len(set(members.lost)) == len(members.lost)
        lost.append(len(members.lost))
        etcd.start("kube-apiserver")
        assert members.lost == []
    assert set(lost) == {1, 2}


class PaperServer:
    """A server without a process, which ends the run after a few kills."""

    def __init__(self, over: asyncio.Event) -> None:
        self.log: list[str] = []
        self._over = over

    def kill(self, component: str) -> None:
        self.log.append(f"kill {component}")
        if len(self.log) > 4:
            self._over.set()

    def start(self, component: str) -> None:
        self.log.append(f"start {component}")


async def test_servers_are_killed_one_at_a_time_and_all_run_in_the_end() -> None:
    over = asyncio.Event()
    servers = {"meta": PaperServer(over), "r1": PaperServer(over)}
    outages = Outages(servers, 1, longest_service=0.0, longest_absence=0.0)
    await outages.run(over)
    for name, server in servers.items():
        assert server.log == ["kill kube-apiserver", "start kube-apiserver"] * outages.outages[name]


class PaperCluster:
    """A tenant's API that accepts and records every request."""

    name = "acme"

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, object]] = []

    def session(self, _timeout: float) -> "PaperCluster":
        return self

    def __enter__(self) -> "PaperCluster":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def call(self, method: str, path: str, body: object = None) -> tuple[int, object]:
        self.calls.append((method, path, body))
        spec = {"template": {"spec": {"containers": [{"name": "main"}]}}}
        metadata = {"finalizers": [HOLDER, COPY_FINALIZER], "resourceVersion": "7"}
        return {"POST": 201}.get(method, 200), {"metadata": metadata, "spec": spec}


class Steps:
    """Stops after a number of steps."""

    def __init__(self, count: int) -> None:
        self.left = count

    def wait(self, _seconds: float) -> bool:
        self.left -= 1
        return self.left < 0


def stream(seed: int) -> tuple[Churn, list[tuple[str, str, object]]]:
    cluster = PaperCluster()
    churn = Churn(cluster, seed, pause=0.0, super_ids=("r1", "r2"), own_range="10.80.0.0/20")  # type: ignore[arg-type]
    churn.run(Steps(800))  # type: ignore[arg-type]
    return churn, cluster.calls


def test_the_same_seed_makes_the_same_users() -> None:
    seed = random.randrange(1000)
    assert stream(seed)[1] == stream(seed)[1]
    assert stream(1)[1] != stream(2)[1]


def test_users_perform_all_actions_and_mark_their_objects() -> None:
    churn, calls = stream(7)
    assert set(churn.done) == {action.__name__ for action, _ in ACTIONS}
    for method, path, body in calls:
        if method == "POST":
            assert churn.marker in json.dumps(body), path
    assert not churn.refused


class HoldingCluster(PaperCluster):
    """A tenant's API with two Pods: one with our finalizer and one with another."""

    def call(self, method: str, path: str, body: object = None) -> tuple[int, object]:
        self.calls.append((method, path, body))
        ours = {"namespace": "ns-1", "name": "pod-1", "finalizers": [HOLDER, COPY_FINALIZER]}
        others = {"namespace": "ns-1", "name": "pod-2", "finalizers": ["example.com/other"]}
        if path.endswith("/pod-1"):
            return 200, {"metadata": {**ours, "resourceVersion": "7"}}
        return 200, {"items": [{"metadata": ours}, {"metadata": others}]}


def test_users_remove_their_finalizers_when_they_stop() -> None:
    cluster = HoldingCluster()
    churn = Churn(cluster, 1, pause=0.0, super_ids=())  # type: ignore[arg-type]
    churn.run(Steps(0))  # type: ignore[arg-type]
    patched = [(path, body) for method, path, body in cluster.calls if method == "PATCH"]
    left = {"finalizers": [COPY_FINALIZER], "resourceVersion": "7"}
    assert patched == [("/api/v1/namespaces/ns-1/pods/pod-1", {"metadata": left})]


class PaperProxy:
    """A proxy without connections."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def refuse(self) -> None:
        self.log.append("refuse")

    def cut(self) -> None:
        self.log.append("cut")

    def lift(self) -> None:
        self.log.append("lift")

    async def accept(self) -> None:
        self.log.append("accept")


async def test_a_cluster_that_is_cut_off_has_no_other_faults_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    proxy, over, turn = PaperProxy(), asyncio.Event(), asyncio.sleep
    monkeypatch.setattr("asyncio.sleep", lambda _seconds: turn(0))
    cutter = Cutter({"r1": proxy}, 1, pause=1.0)  # type: ignore[dict-item]
    async with cutter.closed("r1"), asyncio.TaskGroup() as tasks:
        tasks.create_task(cutter.run(over))
        for _ in range(20):
            await turn(0)
        assert proxy.log == ["refuse", "cut"]
        over.set()
    assert proxy.log == ["refuse", "cut", "lift", "accept"]
    assert not cutter.faults


class PaperPool:
    """A pool of one super cluster without processes, in which half of all commands fail. The run ends once all have succeeded."""

    def __init__(self, over: asyncio.Event) -> None:
        self.log: list[str] = []
        self._over = over
        self._random = random.Random(1)

    def vcsync(self, *arguments: str) -> str:
        if self._random.random() < 0.5:
            raise SystemFailed("the meta cluster does not answer")
        self.log.append(" ".join(arguments[:3]))
        return ""

    def pid(self, role: str) -> int:
        raise KeyError(role)

    @asynccontextmanager
    async def closed(self, name: str) -> AsyncIterator[None]:
        self.log.append(f"close {name}")
        yield
        self.log.append(f"open {name}")
        if {"super drain r1", "super fence r1", "rebalance --no-wait"} <= set(self.log):
            self._over.set()

    def pause(self, component: str) -> None:
        self.log.append(f"pause {component}")

    def resume(self, component: str) -> None:
        self.log.append(f"resume {component}")


async def test_all_moves_are_undone_in_the_end() -> None:
    over = asyncio.Event()
    pool = PaperPool(over)
    moves = Moves(pool, pool, {"r1": pool}, 1, pause=0.0, pace=0.0)
    async with asyncio.timeout(60):
        await moves.run(over)
    assert moves.done.keys() == {"drain", "rebalance", "loss", "fence"}
    assert pool.log.count("close r1") == pool.log.count("open r1")
    state = {"drain": False, "fence": False, "kwok": False, "kube-scheduler": False}
    for said in pool.log:
        match said.split():
            case ["super", "drain" | "undrain" as verb, _]:
                state["drain"] = verb == "drain"
            case ["super", "fence" | "unfence" as verb, _]:
                assert verb == "unfence" or state["kwok"], "the nodes are off when a super cluster is fenced"
                assert verb == "fence" or not state["kwok"], "Pods can end before the fence is lifted"
                state["fence"] = verb == "fence"
            case ["pause" | "resume" as verb, component]:
                state[component] = verb == "pause"
    assert not any(state.values()), state
