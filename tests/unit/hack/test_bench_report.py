import json
from typing import Any

import pytest

from hack.bench import formats, report, runs
from hack.bench.kinds import KindRun
from hack.bench.load import Latency
from hack.bench.meter import Request, Usage
from hack.bench.report import Aim, Results, Row
from hack.bench.runs import Burst


@pytest.mark.parametrize(
    ("aim", "direct", "tenant", "verdict"),
    [
        (Aim(1.5), None, 1.5, "met"),
        (Aim(1.5), None, 1.75, "missed by 0.25"),
        (Aim(0.64, "least", "ratio"), 150.0, 105.0, "met"),
        (Aim(0.5, "least", "ratio"), 200.0, 50.0, "missed by 0.25"),
        (Aim(10.0, of="difference"), 10.0, 19.0, "met"),
        (Aim(10.0, of="difference"), 10.0, 24.0, "missed by 4.00"),
        (Aim(10.0, of="difference"), None, 24.0, ""),
        (None, 1.0, 2.0, ""),
    ],
)
def test_the_verdict_names_the_amount_by_which_an_aim_is_missed(
    aim: Aim | None, direct: float | None, tenant: float, verdict: str
) -> None:
    assert Row(name="x", aim=aim, direct=direct, tenant=tenant).verdict == verdict


def burst(pods: int, requests: dict[Request, int], cpu: dict[str, float], per_second: float = 100.0) -> Burst:
    return Burst(pods, per_second, Latency(1000.0, 2000.0, 3000.0, pods), Usage(cpu, requests, 0.1), 10.0)


DIRECT = burst(
    100,
    {
        Request("r1", "POST", "pods"): 100,
        Request("r1", "POST", "pods/binding"): 100,
        Request("r1", "PATCH", "pods/status"): 100,
        Request("r1", "POST", "events"): 100,
        Request("r1", "WATCH", "pods"): 5,
    },
    {"r1/kube-apiserver": 0.5, "etcd": 0.1},
)
TENANT = burst(
    100,
    {
        **DIRECT.usage.requests,
        Request("acme", "POST", "pods"): 100,
        Request("acme", "PATCH", "pods"): 100,
        Request("acme", "POST", "pods/binding"): 100,
        Request("acme", "PATCH", "pods/status"): 150,
        Request("acme", "POST", "events"): 100,
        Request("meta", "PATCH", "leases"): 40,
    },
    {"r1/kube-apiserver": 0.9, "etcd": 0.3, "syncer-r1": 0.2, "podscheduler": 0.1, "load generator": 7.0},
    80.0,
)


def test_added_requests_exclude_the_users_create_and_the_super_clusters_own_writes() -> None:
    # The super cluster's creation, the label, the binding, 1.5 statuses, the Event.
    assert report.added_requests(TENANT) == pytest.approx(5.5)


def lines(results: Results) -> dict[str, Row]:
    return {row.name.strip(): row for row in report.rows(results)}


def test_rows_compare_the_two_sides_and_name_the_aims() -> None:
    rows = lines(Results(burst=TENANT, burst_direct=DIRECT))

    assert rows["100 Pods, 50 creations in flight"].ratio == pytest.approx(0.8)
    assert rows["100 Pods, 50 creations in flight"].met is True
    assert rows["CPU: syncer-r1"].tenant == pytest.approx(2.0)
    # Directly a Pod cost 6 ms here and 9 ms where the aim was set.
    assert rows["CPU: syncer-r1"].scaled == pytest.approx(3.0)
    assert rows["CPU: syncer-r1"].verdict == "missed by 1.50"
    assert rows["CPU: whole stack"].tenant == pytest.approx(15.0), "without the load generator"
    assert rows["CPU: whole stack"].direct == pytest.approx(6.0)


def test_missing_measurements_have_no_row() -> None:
    assert report.rows(Results()) == []
    assert "one Pod at a time, p50" not in lines(Results(burst=TENANT, burst_direct=DIRECT))


def test_without_the_direct_side_there_are_no_ratios_and_no_verdict_on_them() -> None:
    rows = lines(Results(burst=TENANT))

    assert rows["100 Pods, 50 creations in flight"].met is None
    assert rows["CPU: whole stack"].met is None
    assert rows["API requests besides the user's and the super cluster's"].tenant == pytest.approx(5.5)


def test_a_kind_is_compared_with_the_same_objects_created_directly() -> None:
    def run(cpu: dict[str, float]) -> KindRun:
        return KindRun("Secret", 100, Usage({**cpu, "load generator": 9.0}, {}, 0.0))

    stack, syncer = report.rows(
        Results(
            kinds_direct=[run({"r1/kube-apiserver": 0.2})],
            kinds=[run({"r1/kube-apiserver": 0.3, "acme/kube-apiserver": 0.2, "syncer-r1": 0.1})],
        )
    )
    assert (stack.direct, stack.tenant, stack.ratio) == (2.0, 6.0, 3.0)
    assert (syncer.name, syncer.tenant) == ("  syncer-r1", 1.0)


def test_the_patrol_has_aims_for_its_cpu_time_and_for_its_longest_step() -> None:
    cost, step = report.rows(Results(patrol=runs.Patrol(10_000, 5, 0.2, 0.006)))
    assert (cost.verdict, step.tenant, step.verdict) == ("met", 6.0, "missed by 1.00")


def test_the_json_contains_table_machine_and_all_measurements() -> None:
    results = Results(burst=TENANT, burst_direct=DIRECT)

    whole: dict[str, Any] = json.loads(formats.document(results, report.rows(results), {"pods": 100}))

    assert whole["settings"] == {"pods": 100}
    assert whole["machine"]["cpus"] >= 1
    assert {"server": "acme", "verb": "PATCH", "resource": "pods/status", "count": 150} in whole["measured"][
        "burst"
    ]["usage"]["requests"]
    assert next(row for row in whole["table"] if row["name"] == "CPU: syncer-r1")["met"] is False


def test_the_table_shows_every_row_in_aligned_columns() -> None:
    rows = report.rows(Results(burst=TENANT, burst_direct=DIRECT))

    text = formats.table(rows).splitlines()

    assert len(text) == len(rows) + 1
    assert "Go tenant" in text[0]
    assert sum("missed by" in line for line in text) == sum(row.met is False for row in rows)


@pytest.mark.parametrize(
    ("gone", "expected"),
    [
        ([], 0),
        ([8.0, 9.0], 0),
        ([9.0, 12.0, 15.0, 18.0, 21.0], 0),
        ([9.0, 11.0, 17.0, 17.1], 2),
        ([16.0], 1),
        ([15.0, 70.0], 1),
    ],
)
def test_pods_linger_if_none_disappears_for_a_while_after_the_last_answer(
    gone: list[float], expected: int
) -> None:
    assert runs.lingering(10.0, gone) == expected
