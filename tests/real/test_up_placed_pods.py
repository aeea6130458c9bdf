"""Pods of embedded tenants have their super cluster in the answer of their creation, on a real super cluster."""

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hack.testbed import TestBed
from tests.real.split_kit import SERVICES, Split
from tests.real.up_kit import Up
from tests.real.waiting import eventually
from vcsync.api.names import SUPER_CLUSTER

REAL = "real"
WRITES = re.compile(
    r'^apiserver_request_total\{code="20\d",.*resource="pods",.*subresource="(.*?)",verb="(POST|PUT|PATCH)".*\} (.*)$',
    re.MULTILINE,
)


def pod(name: str, cpu: str = "100m", labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": "16Mi"}
    container = {"name": "c", "image": "nginx", "resources": {"requests": amounts, "limits": amounts}}
    metadata = {"name": name, "labels": labels or {}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container], **spec},
    }


def create(up: Up, *bodies: dict[str, Any], options: str = "") -> list[dict[str, Any]]:
    """Create Pods with one command, and return the answers of their creation."""
    file = up.folder / "pods.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": bodies}))
    text = up.kubectl(f"create -f {file} -o json {options}")
    answers: list[dict[str, Any]] = []
    while text := text.lstrip():
        answer, end = json.JSONDecoder().raw_decode(text)
        answers.append(answer)
        text = text[end:]
    return answers


def refusal(up: Up, body: dict[str, Any]) -> str:
    """Return what kubectl prints about a Pod that may not be created."""
    file = up.folder / "refused.json"
    file.write_text(json.dumps(body))
    return up.kubectl(f"create -f {file} 2>&1 && exit 1 || true")


def mark(answer: dict[str, Any]) -> tuple[str, str]:
    metadata = answer["metadata"]
    return tuple((metadata.get(part) or {}).get(SUPER_CLUSTER, "") for part in ("labels", "annotations"))


def writes(up: Up) -> dict[str, int]:
    """Return how many writes of Pods the tenant's API server has answered, by verb and subresource."""
    found: dict[str, int] = {}
    for part, verb, count in WRITES.findall(up.kubectl("get --raw /metrics")):
        what = f"{verb} {part}".strip()
        found[what] = found.get(what, 0) + int(float(count))
    return found


def more(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    return {what: count - before.get(what, 0) for what, count in after.items() if count > before.get(what, 0)}


def promises(up: Up) -> dict[str, Any]:
    shown: dict[str, Any] = up.roles()["podscheduler"]["tenants"]
    [acme] = [each for each in shown.values() if each["vc"].endswith("/acme")]
    return acme


def placed(up: Up, name: str) -> bool:
    return mark(json.loads(up.kubectl(f"get pod {name} -o json"))) == (REAL, REAL)


@pytest.mark.timeout(390)
@pytest.mark.core
def test_a_new_pod_is_placed_in_the_answer_of_its_creation(up: Up, tmp_path: Path) -> None:
    with TestBed(supers=1, nodes=2, tenants=(), directory=tmp_path / "bed", embedded=("meta",)) as bed:
        up.start("--super-cluster", f"{REAL}={bed.supers['r1'].kubeconfig}")
        up.kubectl("create quota all --hard=cpu=2,memory=4Gi,pods=60")
        eventually(
            lambda: "slices placed (real" in up.kubectl("get events --field-selector reason=Scheduled")
        )

        # Placed at the creation: one write for each Pod before the syncer's, and no patch.
        before = writes(up)
        assert [mark(each) for each in create(up, *(pod(f"new-{n}") for n in range(5)))] == [(REAL, REAL)] * 5
        up.running(5)
        at_once = more(before, writes(up))
        assert (at_once["POST"], at_once.get("PATCH", 0)) == (5, 0)

        # The same Pods on the way of before: one more write for each.
        before = writes(up)
        bodies = (pod(f"old-{n}", schedulerName="of-the-tenant") for n in range(5))
        assert [mark(each) for each in create(up, *bodies)] == [("", "")] * 5
        up.running(10)
        later = more(before, writes(up))
        assert (later["POST"], later["PATCH"]) == (5, 5)
        print("writes of five Pods at once:", at_once, "and later:", later)

        # A dry run promises nothing, and a refused Pod gives its room back.
        assert mark(create(up, pod("dry"), options="--dry-run=server")[0]) == ("", "")
        refused = refusal(up, pod("refused", cpu="1500m"))
        assert "exceeded quota" in refused
        eventually(lambda: promises(up)["promised"] == 0)
        [large] = create(up, pod("large", cpu="900m"))
        assert mark(large) == (REAL, REAL)

        # The tenant's own label stays what it is, and the scheduler judges it as before.
        [own] = create(up, pod("own", cpu="10m", labels={SUPER_CLUSTER: "nowhere"}))
        assert mark(own) == ("nowhere", "")
        eventually(lambda: placed(up, "own"))

        # A Pod does not overtake one that waits.
        create(up, pod("waits", cpu="10m", nodeSelector={"kubernetes.io/hostname": "none.nowhere"}))
        eventually(lambda: promises(up)["waiting"] == 1)
        assert mark(create(up, pod("behind", cpu="10m"))[0]) == ("", "")
        eventually(lambda: placed(up, "behind"))
        up.kubectl("delete pod waits")
        eventually(lambda: promises(up)["waiting"] == 0)
        eventually(lambda: mark(create(up, pod("after", cpu="10m"))[0]) == (REAL, REAL))
        assert up.end(signal.SIGTERM) == 0


@pytest.fixture
def split(tmp_path: Path) -> Iterator[Split]:
    made = Split(tmp_path)
    yield made
    made.close()


@pytest.mark.timeout(390)
def test_pods_are_created_without_the_scheduler_and_placed_later(split: Split) -> None:
    split.start("controlplane")
    split.run("setup")
    others = [name for name in SERVICES if name not in ("controlplane", "setup", "podscheduler")]
    for service in others:
        split.start(service)
    split.kubectl("acme", "create", "quota", "all", "--hard=cpu=2,memory=4Gi")

    def scheduled() -> bool:
        return "slices placed" in split.kubectl("acme", "get", "events", "--field-selector=reason=Scheduled")

    eventually(scheduled, within=120)
    answer = split.kubectl("acme", "create", "-f", "-", "-o", "json", sent=json.dumps(pod("web")))
    assert mark(json.loads(answer)) == ("", "")
    split.start("podscheduler")

    def runs() -> bool:
        found = json.loads(split.kubectl("acme", "get", "pod", "web", "-o", "json"))
        return found["status"]["phase"] == "Running" and all(mark(found))

    eventually(runs, within=120)
    assert split.end("podscheduler", *others) == {0}
    assert split.end("controlplane") == {0}
