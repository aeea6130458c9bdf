"""Selectors with many requirements, many watches with such selectors, and many budgets: each step stays short."""

import asyncio
from collections.abc import Iterator, Mapping
from itertools import pairwise
from types import SimpleNamespace

import pytest

from vcsync.apimachinery.selectors.label_selectors import parse_label_selector
from vcsync.apiserver.registry import eviction
from vcsync.apiserver.watch import cacher
from vcsync.apiserver.watch.cacher import Cacher

MANY = 2000


class Looked(Mapping[str, str]):
    """Labels that count how often they are looked at."""

    def __init__(self, labels: dict[str, str]) -> None:
        self.labels = labels
        self.looks = 0

    def __getitem__(self, key: str) -> str:
        self.looks += 1
        return self.labels[key]

    def __iter__(self) -> Iterator[str]:
        for each in self.labels:
            self.looks += 1
            yield each

    def __len__(self) -> int:
        return len(self.labels)


@pytest.mark.parametrize(
    ("text", "value", "matches"),
    [
        (",".join(f"a!=x{at}" for at in range(MANY)), "y", True),
        (",".join(f"a!=x{at}" for at in range(MANY)), "x1999", False),
        (",".join(f"a in (y,x{at})" for at in range(MANY)), "y", True),
        (",".join(f"a in (y,x{at})" for at in range(MANY)), "x1", False),
        (",".join(f"a>{at}" for at in range(MANY)), "2000", True),
        (",".join(f"a>{at}" for at in range(MANY)), "1999", False),
        (",".join(f"a<{at}" for at in range(5, MANY)), "4", True),
        (",".join(f"a<{at}" for at in range(5, MANY)), "5", False),
        (",".join(["a"] * MANY), "y", True),
        (",".join(["!a"] * MANY), "y", False),
    ],
)
def test_many_requirements_on_one_label_cost_as_much_as_one(text: str, value: str, *, matches: bool) -> None:
    selector, labels = parse_label_selector(text), Looked({"a": value})
    assert selector.matches(labels) is matches
    assert labels.looks < 10


def test_many_labels_cost_no_more_than_the_requirements_on_others() -> None:
    selector = parse_label_selector(",".join(f"a{at}!=x" for at in range(20)))
    labels = Looked({f"b{at}": "x" for at in range(50_000)})
    assert selector.matches(labels)
    assert labels.looks < 100


async def test_slow_watches_are_flushed_in_several_turns(store, monkeypatch):
    """A selector of 16 KiB takes most of a millisecond for each event and watch."""
    now, flushed = [0.0], []
    monkeypatch.setattr(cacher, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    caches = Cacher(store)

    class Slow:
        def flush(self):
            now[0] += cacher.FLUSH_SECONDS / 2
            flushed.append(1)

    for _ in range(100):
        caches._flush_soon(Slow())
    sizes = []
    while len(flushed) < 100:
        sizes.append(len(flushed))
        await asyncio.sleep(0)
    assert max(b - a for a, b in pairwise(sizes)) <= 3


async def test_an_eviction_reads_many_budgets_in_pieces(api, store, monkeypatch):
    monkeypatch.setattr(eviction, "PAGE", 7)
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    pod = {
        "metadata": {"name": "p", "labels": {"app": "p"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    assert (await api("POST", "/api/v1/namespaces/default/pods", pod)).status == 201
    running = {"status": {"phase": "Running"}}
    merge = {"Content-Type": "application/merge-patch+json"}
    assert (await api("PATCH", "/api/v1/namespaces/default/pods/p/status", running, **merge)).status == 200
    for at in range(20):
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": f"x{at}" if at < 19 else "p"}}}
        made = await api("POST", budgets, {"metadata": {"name": f"b{at:02}"}, "spec": spec})
        assert made.status == 201, made.body
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    refused = await api("POST", "/api/v1/namespaces/default/pods/p/eviction", body)
    assert (refused.status, refused.body["reason"]) == (429, "TooManyRequests")
