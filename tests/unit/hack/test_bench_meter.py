from collections import Counter

import pytest

from hack.bench.meter import GENERATOR, Reading, Request, between, parse_requests, parse_reviews, percentile


def sample(code: int, verb: str, resource: str, subresource: str, value: str) -> str:
    labels = (
        f'code="{code}",component="apiserver",dry_run="",group="",resource="{resource}",scope="resource",'
        f'subresource="{subresource}",verb="{verb}",version="v1"'
    )
    return f"apiserver_request_total{{{labels}}} {value}"


METRICS = "\n".join(
    (
        "# TYPE apiserver_request_total counter",
        sample(201, "POST", "pods", "", "7"),
        sample(409, "POST", "pods", "", "2"),
        sample(201, "POST", "pods", "binding", "1e+06"),
        sample(200, "GET", "", "/metrics", "3"),
        'apiserver_longrunning_requests{resource="pods",verb="WATCH"} 9',
        "",
    )
)


def test_requests_are_counted_by_verb_resource_and_subresource_with_any_answer() -> None:
    assert parse_requests("r1", METRICS) == {
        Request("r1", "POST", "pods"): 9,
        Request("r1", "POST", "pods/binding"): 1_000_000,
    }


def test_calls_of_the_placement_webhook_are_counted_by_their_outcome() -> None:
    text = """# TYPE vcsync_podscheduler_reviews_total counter
vcsync_podscheduler_reviews_total{outcome="placed",source="podscheduler"} 12.0
vcsync_podscheduler_reviews_total{outcome="left",source="podscheduler"} 1.0
vcsync_podscheduler_promises_total{outcome="placed",source="podscheduler"} 9.0
"""
    assert parse_reviews(text) == {"placed": 12, "left": 1}


def reading(
    cpu: dict[str, tuple[int, float]], requests: dict[Request, int], busy: float, elapsed: float
) -> Reading:
    return Reading(cpu, Counter(requests), busy, elapsed)


def test_usage_is_the_difference_of_two_readings() -> None:
    create, watch = Request("r1", "POST", "pods"), Request("r1", "WATCH", "pods")
    lease = Request("acme", "PATCH", "leases")
    before = reading({"etcd": (1, 5.0), GENERATOR: (9, 1.0)}, {create: 3}, 100.0, 200.0)
    after = reading({"etcd": (1, 7.0), GENERATOR: (9, 2.0)}, {create: 8, watch: 4, lease: 6}, 108.0, 220.0)

    usage = between(before, after)

    assert usage.cpu["etcd"] == 2.0
    assert usage.stack_cpu == 2.0, "the load generator is no part of what is measured"
    assert usage.count() == 5, "watches and heartbeats come however many Pods there are"
    assert usage.count(server="acme") == 0
    assert usage.foreign == pytest.approx((8.0 - 3.0) / 20.0)


def test_a_restarted_process_counts_from_its_start() -> None:
    before = reading({"syncer-r1": (1, 50.0)}, {}, 0.0, 0.0)
    after = reading({"syncer-r1": (2, 0.75)}, {}, 1.0, 10.0)

    assert between(before, after).cpu["syncer-r1"] == 0.75


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        ([5.0], 0.99, 5.0),
        ([1.0, 2.0, 3.0, 4.0], 0.5, 2.0),
        (list(range(1, 101)), 0.99, 99),
        (list(range(1, 2001)), 0.99, 1980),
        ([3.0, 1.0, 2.0], 1.0, 3.0),
    ],
)
def test_a_percentile_is_the_value_that_the_share_does_not_exceed(
    values: list[float], share: float, expected: float
) -> None:
    assert percentile(values, share) == expected


def test_a_percentile_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)
