"""The comparison of vcsync with another syncer: figures of all rounds, ratios of their means, verdicts."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from hack.bench import comparison, formats, peer, turns
from hack.bench.comparison import Contender, Line, Turn
from hack.bench.load import Latency
from hack.bench.meter import GENERATOR, Request, Usage
from hack.bench.runs import Burst

PODS = 100


def turn(
    contender: Contender,
    number: int = 1,
    *,
    cpu: dict[str, float] | None = None,
    requests: dict[Request, int] | None = None,
    p99: float = 2000.0,
    single: float = 20.0,
    reviews: dict[str, int] | None = None,
) -> Turn:
    usage = Usage({GENERATOR: 9.0, **(cpu or {})}, requests or {}, 0.25)
    return Turn(
        contender,
        number,
        Burst(PODS, 50.0, Latency(1000.0, p99, p99, PODS), usage, 5.0, reviews or {}),
        Latency(single, 2 * single, 3 * single, 10),
    )


def lines(*made: Turn) -> dict[str, Line]:
    return {line.name.strip(): line for line in comparison.lines(made)}


@pytest.mark.parametrize(
    ("ours", "theirs", "limit", "ratio", "verdict"),
    [
        ((9.0,), (10.0,), 0.9, 0.9, "met"),
        ((8.0, 12.0), (10.0, 10.0), 0.9, 1.0, "missed by 0.10"),
        ((8.0, 9.0), (12.0,), 0.7, 8.5 / 12, "missed by 0.01"),
        ((8.0,), (10.0,), None, 0.8, ""),
        ((), (10.0,), 0.9, None, ""),
        ((8.0,), (), 0.9, None, ""),
        ((8.0,), (-1.0,), 0.7, None, ""),
    ],
)
def test_the_mean_of_all_rounds_decides(
    ours: tuple[float, ...],
    theirs: tuple[float, ...],
    limit: float | None,
    ratio: float | None,
    verdict: str,
) -> None:
    line = Line(name="x", unit="ms", ours=ours, peer=theirs, limit=limit)

    assert line.ratio == (None if ratio is None else pytest.approx(ratio))
    assert line.verdict == verdict


def test_every_process_counts_once_and_the_load_generator_never() -> None:
    ours = {
        "syncer-r1": 0.5,
        "podscheduler": 0.25,
        "acme/kube-apiserver": 1.0,
        "peer/kube-apiserver": 0.125,
        "r1/kube-apiserver": 2.0,
        "meta/kube-apiserver": 0.125,
    }
    theirs = {
        "peer": 0.75,
        "acme/kube-apiserver": 0.25,
        "peer/kube-apiserver": 1.0,
        "r1/kube-apiserver": 2.5,
        "etcd": 0.125,
    }

    found = lines(
        turn("direct", cpu={"r1/kube-apiserver": 1.0}), turn("ours", cpu=ours), turn("peer", cpu=theirs)
    )

    figures = {name: (line.direct, line.ours, line.peer) for name, line in found.items()}
    assert figures["CPU: syncer"] == ((), (5.0,), (7.5,))
    assert figures["CPU: Pod scheduler"] == ((), (2.5,), ())
    assert figures["CPU: tenant's kube-apiserver"] == ((), (10.0,), (10.0,))
    assert figures["CPU: super cluster's kube-apiserver"] == ((10.0,), (20.0,), (25.0,))
    assert figures["CPU: others"] == ((0.0,), (2.5,), (2.5,))
    assert figures["CPU: whole stack"] == ((10.0,), (40.0,), (46.25,))
    assert found["CPU: whole stack"].verdict == "met"


def test_latency_is_added_to_the_direct_turn_of_the_same_round() -> None:
    found = lines(
        turn("direct", 1, single=10.0),
        turn("ours", 1, single=24.0),
        turn("peer", 1, single=30.0),
        turn("direct", 2, single=20.0),
        turn("peer", 2, single=50.0),
        turn("ours", 2, single=41.0),
    )

    added = found["p50 added to direct"]
    assert (added.direct, added.ours, added.peer) == ((), (14.0, 21.0), (20.0, 30.0))
    assert added.verdict == "met"
    assert found["one Pod at a time, p50"].direct == (10.0, 20.0)


def test_a_slower_end_of_the_burst_misses_the_aim() -> None:
    found = lines(turn("ours", p99=3000.0), turn("peer", p99=2000.0))

    assert found["creation to Running, p99"].ours == (3.0,)
    assert found["creation to Running, p99"].verdict == "missed by 0.50"


def test_pods_that_are_placed_at_their_creation_need_no_write_later() -> None:
    found = lines(
        turn("ours", requests={Request("acme", "PATCH", "pods"): 20, Request("r1", "PATCH", "pods"): 7})
    )

    assert found["placed after the creation"].ours == (0.2,)


def test_calls_of_the_placement_webhook_are_shown_by_their_outcome() -> None:
    found = lines(turn("direct"), turn("ours", reviews={"placed": 95, "left": 5}))

    assert found["calls of the placement webhook, placed"].ours == (0.95,)
    assert found["calls of the placement webhook, left"].ours == (0.05,)
    assert not any("webhook" in name for name in lines(turn("direct"), turn("ours")))


def test_without_the_peer_or_unfinished_there_are_figures_but_no_verdict() -> None:
    found = lines(turn("direct"), turn("ours"))

    assert comparison.lines([]) == []
    assert "CPU: whole stack" in found
    assert not any(line.verdict or line.peer for line in found.values())


def test_the_table_and_the_json_show_all_rounds() -> None:
    found = [turn("direct", 1), turn("ours", 1), turn("peer", 1), turn("direct", 2, single=20.5)]
    made = comparison.lines(found)

    text = formats.columns(comparison.cells(made)).splitlines()
    markdown = formats.markdown_table(comparison.cells(made)).splitlines()
    whole: dict[str, Any] = json.loads(formats.record(comparison.plain(made), found, {"rounds": 2}))

    assert len(text) == len(made) + 1
    assert len(markdown) == len(made) + 2
    assert any("20.0, 20.5" in line for line in text)
    assert [each["contender"] for each in whole["measured"]] == ["direct", "ours", "peer", "direct"]
    assert next(row for row in whole["table"] if row["name"] == "  CPU: whole stack")["limit"] == 0.9


def test_the_order_of_the_contenders_changes_with_the_round_but_direct_is_first() -> None:
    assert list(turns.order(3, ("direct", "ours", "peer"))) == [
        (1, ("direct", "ours", "peer")),
        (2, ("direct", "peer", "ours")),
        (3, ("direct", "ours", "peer")),
    ]


def test_the_peer_finds_its_tenant_by_the_virtual_cluster_and_the_secret_of_its_root_namespace() -> None:
    namespace, secret, virtual_cluster = peer.registration(b"a kubeconfig")

    root = virtual_cluster.body["status"]["clusterNamespace"]
    assert virtual_cluster.body["status"]["phase"] == "Running"
    assert namespace.body["metadata"]["name"] == root
    assert secret.path == f"/api/v1/namespaces/{root}/secrets"
    assert base64.b64decode(secret.body["data"][secret.body["metadata"]["name"]]) == b"a kubeconfig"
    # A definition without the subresource keeps the status that an object is created with.
    assert "subresources" not in peer.definition().body["spec"]["versions"][0]


def test_the_peer_is_the_only_one_of_its_kind_on_the_super_cluster() -> None:
    flags = peer.arguments(Path("/r1.kubeconfig"), 4000)

    assert flags[:4] == (
        "--super-master-kubeconfig=/r1.kubeconfig",
        "--leader-elect=false",
        "--address=127.0.0.1",
        "--port=4000",
    )
