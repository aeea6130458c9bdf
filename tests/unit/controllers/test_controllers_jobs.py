"""Jobs: completions, counts that include each Pod once, and policies."""

from typing import Any

import pytest
from controllers_world import Mortal, World
from hypothesis import given, settings
from hypothesis import strategies as st

from vcsync.controllers.framework.plan import Create, Patch
from vcsync.controllers.job.job_plan import JOB, JOB_ORPHANS
from vcsync.controllers.job.objects import FAILURE_COUNT, FINALIZER, IGNORED_FAILURE_COUNT, INDEX
from vcsync.kube.cache import Change
from vcsync.kube.errors import Forbidden, Status
from vcsync.kube.resources import JOBS, PODS

LABELS = {"batch.kubernetes.io/job-name": "sum"}


def job(**spec: Any) -> dict[str, Any]:
    pod = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}
    template = {"metadata": {"labels": LABELS}, "spec": pod}
    asked = {
        "parallelism": 1,
        "completions": 1,
        "backoffLimit": 6,
        "selector": {"matchLabels": LABELS},
        "template": template,
    }
    known = {name: value for name, value in (asked | spec).items() if value is not None}
    return {"metadata": {"name": "sum"}, "spec": known}


def indexed(count: int, parallelism: int = 10, **spec: Any) -> dict[str, Any]:
    return job(completions=count, parallelism=parallelism, completionMode="Indexed", **spec)


def world(body: dict[str, Any]) -> World:
    made = World([JOB, JOB_ORPHANS])
    made.put(JOBS, body)
    made.settle()
    return made


def running(made: World) -> list[str]:
    return [
        pod["metadata"]["name"]
        for pod in made.bodies(PODS)
        if pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")
        and "deletionTimestamp" not in pod["metadata"]
    ]


def by_index(made: World) -> dict[int, str]:
    return {int(made.body(PODS, name)["metadata"]["annotations"][INDEX]): name for name in running(made)}


def end(made: World, name: str, code: int = 0, **status: Any) -> None:
    ended = {"exitCode": code, "finishedAt": made.time()}
    phase = "Failed" if code else "Succeeded"
    container = {"name": "c", "state": {"terminated": ended}}
    made.change(PODS, name, {"status": {"phase": phase, "containerStatuses": [container], **status}})


def finish(made: World, name: str, code: int = 0, **status: Any) -> None:
    end(made, name, code, **status)
    made.settle()


def status(made: World) -> dict[str, Any]:
    found: dict[str, Any] = made.body(JOBS, "sum").get("status", {})
    return found


def conditions(made: World) -> list[tuple[str, str]]:
    return [
        (each["type"], each["reason"])
        for each in status(made).get("conditions", ())
        if each["status"] == "True"
    ]


def reasons(made: World) -> list[str]:
    return [event.reason for event in made.events]


def wait(made: World) -> float | None:
    return made.work("job-controller", made.key("default", "sum")).again


# Completions


def test_a_pod_is_created_owned_tracked_and_named_after_its_job() -> None:
    made = world(job())
    [pod] = made.bodies(PODS)
    assert pod["metadata"]["generateName"] == "sum-"
    assert pod["metadata"]["finalizers"] == [FINALIZER]
    assert pod["metadata"]["ownerReferences"][0]["kind"] == "Job"
    assert (status(made)["active"], status(made)["ready"], status(made)["terminating"]) == (1, 0, 0)
    assert status(made)["startTime"] == made.time()


def test_a_job_completes_when_its_pods_have_succeeded() -> None:
    made = world(job(completions=3, parallelism=2))
    assert len(running(made)) == 2
    finish(made, running(made)[0])
    assert (status(made)["succeeded"], len(running(made))) == (1, 2)
    for name in running(made):
        finish(made, name)
    assert conditions(made) == [
        ("SuccessCriteriaMet", "CompletionsReached"),
        ("Complete", "CompletionsReached"),
    ]
    assert status(made)["succeeded"] == 3
    assert status(made)["completionTime"] == made.time()
    assert status(made)["uncountedTerminatedPods"] == {}
    assert "active" not in status(made)
    assert not any(pod["metadata"].get("finalizers") for pod in made.bodies(PODS))
    assert reasons(made).count("Completed") == 1


def test_without_completions_one_success_is_enough_once_the_others_have_ended() -> None:
    made = world(job(completions=None, parallelism=2))
    first, second = running(made)
    finish(made, first)
    assert (len(running(made)), conditions(made)) == (1, [])
    finish(made, second, code=1)
    assert conditions(made)[-1] == ("Complete", "CompletionsReached")


def test_pods_beyond_the_parallelism_are_deleted_without_counting_as_failed() -> None:
    made = world(job(completions=5, parallelism=4))
    made.change(JOBS, "sum", {"spec": {"parallelism": 1}})
    made.settle()
    assert (len(running(made)), status(made).get("failed")) == (1, None)


def test_a_finished_pod_is_recorded_before_its_finalizer_is_removed() -> None:
    made = world(job(completions=2))
    [name] = running(made)
    uid = made.body(PODS, name)["metadata"]["uid"]
    made.written.clear()
    finish(made, name)
    patches = [each for each in made.written if isinstance(each, Patch)]
    first, second = patches[0].patch, patches[1].patch
    assert isinstance(first, dict)
    assert isinstance(second, dict)
    assert first["status"]["uncountedTerminatedPods"] == {"succeeded": [uid]}
    assert second["metadata"] == {"uid": uid, "$deleteFromPrimitiveList/finalizers": [FINALIZER]}


def test_an_exhausted_quota_is_reported_and_finished_pods_still_count() -> None:
    made = world(job(completions=3, parallelism=2))
    end(made, running(made)[0])
    made.refusals.append((Create, Forbidden(Status(403, "Forbidden", "exceeded quota"))))
    wait(made)
    assert status(made)["succeeded"] == 1
    assert "FailedCreate" in reasons(made)
    made.settle()
    assert len(running(made)) == 2


# Failures


def test_failed_pods_are_replaced_with_doubling_backoff() -> None:
    made = world(job())
    for pause in (10, 20, 40):
        finish(made, running(made)[0], code=1)
        assert (running(made), wait(made)) == ([], pause)
        made.pass_time(pause)
        made.settle()
        assert len(running(made)) == 1
    assert status(made)["failed"] == 3


def test_more_failures_than_the_limit_fail_the_job_and_its_other_pods() -> None:
    made = world(job(completions=3, parallelism=3, backoffLimit=0))
    finish(made, running(made)[0], code=1)
    assert conditions(made) == [
        ("FailureTarget", "BackoffLimitExceeded"),
        ("Failed", "BackoffLimitExceeded"),
    ]
    assert (status(made)["failed"], running(made)) == (3, [])
    assert "completionTime" not in status(made)
    assert reasons(made).count("BackoffLimitExceeded") == 1


def test_restarts_of_containers_count_where_they_are_restarted() -> None:
    body = job(backoffLimit=2)
    body["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
    made = world(body)
    [name] = running(made)
    made.change(
        PODS, name, {"status": {"phase": "Running", "containerStatuses": [{"name": "c", "restartCount": 2}]}}
    )
    made.settle()
    assert conditions(made)[-1] == ("Failed", "BackoffLimitExceeded")


def test_a_job_that_runs_for_too_long_fails() -> None:
    made = world(job(activeDeadlineSeconds=30))
    made.pass_time(10)
    assert wait(made) == 20
    made.pass_time(20)
    made.settle()
    assert conditions(made)[-1] == ("Failed", "DeadlineExceeded")
    assert running(made) == []


def test_a_job_ends_only_when_its_last_pod_is_gone() -> None:
    made = world(job(activeDeadlineSeconds=30))
    [name] = running(made)
    made.change(PODS, name, {"metadata": {"finalizers": ["example.com/slow", FINALIZER]}})
    made.pass_time(30)
    made.settle()
    assert conditions(made) == [("FailureTarget", "DeadlineExceeded")]
    assert status(made)["terminating"] == 1
    made.remove(PODS, name)
    made.settle()
    assert conditions(made)[-1] == ("Failed", "DeadlineExceeded")


@pytest.mark.parametrize(("policy", "replaced"), [("TerminatingOrFailed", 1), ("Failed", 0)])
def test_a_terminating_pod_is_replaced_immediately_or_after_its_end(policy: str, replaced: int) -> None:
    made = world(job(podReplacementPolicy=policy))
    [name] = running(made)
    leaving = {"deletionTimestamp": made.time(), "finalizers": [FINALIZER, "example.com/slow"]}
    made.change(PODS, name, {"metadata": leaving})
    made.settle()
    assert len(running(made)) == replaced
    assert status(made)["terminating"] == 1


# Pod failure policy

POLICY = {
    "rules": [
        {
            "action": "FailJob",
            "onExitCodes": {"operator": "In", "values": [42], "containerName": "c"},
        },
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    ]
}


def test_an_exit_code_fails_the_job_by_its_policy() -> None:
    made = world(job(podFailurePolicy=POLICY))
    [name] = running(made)
    finish(made, name, code=42)
    assert conditions(made)[-1] == ("Failed", "PodFailurePolicy")
    assert status(made)["conditions"][-1]["message"] == (
        f"Container c for pod default/{name} failed with exit code 42 matching FailJob rule at index 0"
    )


def test_an_ignored_failure_does_not_count() -> None:
    made = world(job(podFailurePolicy=POLICY, backoffLimit=0))
    disrupted = {"type": "DisruptionTarget", "status": "True"}
    finish(made, running(made)[0], code=1, conditions=[disrupted])
    made.pass_time(10)
    made.settle()
    assert (conditions(made), len(running(made)), status(made).get("failed")) == ([], 1, None)


# Indexed Jobs


def test_each_pod_of_an_indexed_job_knows_its_index() -> None:
    made = world(indexed(3))
    assert sorted(by_index(made)) == [0, 1, 2]
    pod = made.body(PODS, by_index(made)[2])
    assert pod["metadata"]["labels"][INDEX] == "2"
    assert pod["metadata"]["generateName"] == "sum-2-"
    assert pod["spec"]["hostname"] == "sum-2"
    assert pod["spec"]["containers"][0]["env"] == [
        {
            "name": "JOB_COMPLETION_INDEX",
            "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}},
        }
    ]


def test_completed_indexes_are_reported_as_ranges() -> None:
    made = world(indexed(6))
    for index in (5, 0, 2, 3):
        finish(made, by_index(made)[index])
    assert (status(made)["completedIndexes"], status(made)["succeeded"]) == ("0,2,3,5", 4)
    for index in (1, 4):
        finish(made, by_index(made)[index])
    assert (status(made)["completedIndexes"], conditions(made)[-1][0]) == ("0-5", "Complete")


def test_a_duplicate_index_is_deleted() -> None:
    made = world(indexed(2))
    twin = made.body(PODS, by_index(made)[1])
    metadata = {name: value for name, value in twin["metadata"].items() if name != "uid"}
    made.put(PODS, twin | {"metadata": metadata | {"name": "twin"}})
    made.settle()
    assert sorted(by_index(made)) == [0, 1]
    assert len(running(made)) == 2


def test_an_index_fails_by_itself_and_its_pods_have_the_failure_count() -> None:
    made = world(indexed(2, backoffLimitPerIndex=1, backoffLimit=100))
    finish(made, by_index(made)[0], code=1)
    made.pass_time(10)
    made.settle()
    again = made.body(PODS, by_index(made)[0])
    assert again["metadata"]["annotations"][FAILURE_COUNT] == "1"
    finish(made, by_index(made)[0], code=1)
    assert (status(made)["failedIndexes"], conditions(made)) == ("0", [])
    finish(made, by_index(made)[1])
    assert conditions(made)[-1] == ("Failed", "FailedIndexes")
    assert (status(made)["completedIndexes"], status(made)["failed"]) == ("1", 2)


def test_ignored_failures_of_an_index_are_counted_separately() -> None:
    made = world(indexed(1, backoffLimitPerIndex=0, podFailurePolicy=POLICY, backoffLimit=100))
    disrupted = {"type": "DisruptionTarget", "status": "True"}
    finish(made, by_index(made)[0], code=1, conditions=[disrupted])
    made.pass_time(10)
    made.settle()
    annotations = made.body(PODS, by_index(made)[0])["metadata"]["annotations"]
    assert (annotations[FAILURE_COUNT], annotations[IGNORED_FAILURE_COUNT]) == ("0", "1")


def test_too_many_failed_indexes_fail_the_job() -> None:
    made = world(indexed(4, backoffLimitPerIndex=0, maxFailedIndexes=1, backoffLimit=100))
    finish(made, by_index(made)[0], code=1)
    assert conditions(made) == []
    finish(made, by_index(made)[2], code=1)
    assert conditions(made)[-1] == ("Failed", "MaxFailedIndexesExceeded")


def test_a_success_policy_ends_the_job_early_without_failing_the_others() -> None:
    rules = [{"succeededIndexes": "0-2", "succeededCount": 2}]
    made = world(indexed(5, successPolicy={"rules": rules}))
    finish(made, by_index(made)[4])
    finish(made, by_index(made)[0])
    assert conditions(made) == []
    finish(made, by_index(made)[2])
    assert conditions(made) == [("SuccessCriteriaMet", "SuccessPolicy"), ("Complete", "SuccessPolicy")]
    assert (running(made), status(made).get("failed")) == ([], None)


# Suspension, management, orphans


def test_a_suspended_job_deletes_its_pods_and_resumes_later() -> None:
    made = world(job(completions=2, parallelism=2))
    made.change(JOBS, "sum", {"spec": {"suspend": True}})
    made.settle()
    assert (running(made), conditions(made)) == ([], [("Suspended", "JobSuspended")])
    assert "startTime" not in status(made)
    made.pass_time(5)
    made.change(JOBS, "sum", {"spec": {"suspend": False}})
    made.settle()
    assert (len(running(made)), status(made)["startTime"], status(made).get("failed")) == (
        2,
        made.time(),
        None,
    )
    assert [each for each in reasons(made) if each in ("Suspended", "Resumed")] == ["Suspended", "Resumed"]


def test_a_job_that_another_controller_manages_is_left_alone() -> None:
    made = world(job(managedBy="example.com/queue"))
    assert made.bodies(PODS) == []
    assert status(made) == {}


def test_an_orphan_that_matches_is_adopted_and_tracked() -> None:
    made = World([JOB, JOB_ORPHANS])
    made.put(PODS, {"metadata": {"name": "orphan", "labels": LABELS}, "spec": {}})
    made.put(JOBS, job())
    made.settle()
    assert running(made) == ["orphan"]
    assert made.body(PODS, "orphan")["metadata"]["finalizers"] == [FINALIZER]


def test_a_pod_in_another_namespace_is_not_the_jobs() -> None:
    made = world(job(suspend=True))
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": "sum",
        "uid": made.body(JOBS, "sum")["metadata"]["uid"],
        "controller": True,
    }
    stray = {"name": "stray", "labels": LABELS, "ownerReferences": [owner], "finalizers": [FINALIZER]}
    made.put(PODS, {"metadata": stray, "status": {"phase": "Succeeded"}}, "elsewhere")
    made.settle()
    assert (status(made).get("succeeded"), status(made).get("active")) == (None, None)


def test_pods_of_a_deleted_job_lose_their_finalizer() -> None:
    made = world(job())
    made.remove(JOBS, "sum")
    made.settle()
    [pod] = made.bodies(PODS)
    assert "finalizers" not in pod["metadata"]


@pytest.mark.parametrize(("pods", "seconds"), [(0, 0.0), (100, 0.01), (5000, 0.5), (100_000, 1.0)])
def test_collection_time_grows_with_the_pods_of_a_job(pods: int, seconds: float) -> None:
    made = world(job(suspend=True))
    made.change(JOBS, "sum", {"status": {"active": pods}})
    gather = JOB.watches[1].gather
    assert gather is not None
    change = Change(None, None)
    assert gather(change, made.view(), made.key("default", "sum")) == pytest.approx(seconds)


# Histories


BODIES = {
    "plain": job(completions=4, parallelism=2, backoffLimit=3),
    "any": job(completions=None, parallelism=3, backoffLimit=3),
    "indexed": indexed(4, 3, backoffLimit=3),
    "per index": indexed(4, 3, backoffLimit=100, backoffLimitPerIndex=1),
    "success policy": indexed(4, 3, backoffLimit=3, successPolicy={"rules": [{"succeededCount": 2}]}),
}
DEEDS = st.tuples(
    st.sampled_from(["succeed", "fail", "live", "live", "suspend", "resume", "sleep"]),
    st.integers(0, 8),
)


@settings(max_examples=150, deadline=None)
@given(kind=st.sampled_from(sorted(BODIES)), history=st.lists(DEEDS, max_size=30))
def test_no_pod_is_lost_or_counted_twice_in_any_history(kind: str, history: list[tuple[str, int]]) -> None:
    made = Mortal([JOB, JOB_ORPHANS])
    made.put(JOBS, BODIES[kind])
    outcomes: dict[str, int] = {}
    counters = (0, 0)

    def close(name: str, code: int) -> None:
        pod = made.body(PODS, name)
        if pod["metadata"].get("finalizers"):
            outcomes[name] = code
        end(made, name, code)

    def check() -> None:
        nonlocal counters
        reported = status(made)
        now = (reported.get("succeeded", 0), reported.get("failed", 0))
        assert now >= counters
        counters = now
        assert now[0] <= sum(not code for code in outcomes.values())

    for deed, number in history:
        there = running(made)
        if deed in ("succeed", "fail") and there:
            close(there[number % len(there)], int(deed == "fail"))
        elif deed == "live":
            made.live_for(number)
        elif deed in ("suspend", "resume"):
            made.change(JOBS, "sum", {"spec": {"suspend": deed == "suspend"}})
        elif deed == "sleep":
            made.pass_time(number * 10)
        check()
    made.change(JOBS, "sum", {"spec": {"suspend": False}})
    for _ in range(40):
        made.pass_time(700)
        made.settle()
        if ended := {"Complete", "Failed"} & {each for each, _ in conditions(made)}:
            break
        for name in running(made):
            close(name, 0)
    assert len(ended) == 1
    reported, well = status(made), sum(not code for code in outcomes.values())
    assert reported["uncountedTerminatedPods"] == {}
    assert not any(pod["metadata"].get("finalizers") for pod in made.bodies(PODS))
    assert reported.get("succeeded", 0) == well
    failures = len(outcomes) - well
    assert reported.get("failed", 0) >= failures
    if ended == {"Complete"}:
        assert reported.get("failed", 0) == failures
    if kind in ("plain", "any", "indexed"):
        assert (ended == {"Failed"}) == (reported.get("failed", 0) > 3)
