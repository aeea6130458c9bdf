"""The cells of what makes Pods: Deployments, Jobs and their kin. Pure."""

from collections.abc import Mapping
from datetime import datetime

from vcsync.controlplane.wire.printers.cells import (
    NONE,
    UNSET,
    Object,
    Printer,
    age,
    boolean,
    containers_of,
    count,
    field,
    is_true,
    labels_at,
    lasting,
    look,
    moment,
    name,
    selector_at,
    since,
)
from vcsync.controlplane.wire.printers.metrics import metrics

Kind = tuple[str, str]
JOB_STATES = (
    ("Complete", "Complete"),
    ("Failed", "Failed"),
    ("", "Terminating"),
    ("Suspended", "Suspended"),
    ("FailureTarget", "FailureTarget"),
    ("SuccessCriteriaMet", "SuccessCriteriaMet"),
)
"""Conditions of a Job and what is shown for them, by precedence; no condition: it is being deleted."""


def ready(obj: Object, _: datetime) -> str:
    """Count ready and wanted replicas."""
    return f"{look(obj, 'status.readyReplicas', 0)}/{look(obj, 'spec.replicas', 0)}"


def completions(obj: Object, _: datetime) -> str:
    """Count the successes of a Job, and how many it needs."""
    done, wanted = look(obj, "status.succeeded", 0), look(obj, "spec.completions")
    if wanted is not None:
        return f"{done}/{wanted}"
    parallel = look(obj, "spec.parallelism", 0)
    return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def duration(obj: Object, now: datetime) -> str:
    """Tell how long a Job runs or ran."""
    start = moment(look(obj, "status.startTime"))
    return "" if start is None else lasting((moment(look(obj, "status.completionTime")) or now) - start)


def job_status(obj: Object, _: datetime) -> str:
    """Tell where a Job stands."""
    deleted = look(obj, "metadata.deletionTimestamp") is not None
    return next((text for kind, text in JOB_STATES if (is_true(obj, kind) if kind else deleted)), "Running")


def controller(obj: Object, _: datetime) -> str:
    """Name the owner that controls a ControllerRevision."""
    owners = look(obj, "metadata.ownerReferences", ())
    owner = next((each for each in owners if each.get("controller")), None)
    if owner is None:
        return NONE
    group = owner.get("apiVersion", "").rpartition("/")[0]
    kind = owner.get("kind", "").lower()
    return f"{kind}.{group}/{owner.get('name')}" if group else f"{kind}/{owner.get('name')}"


def reference(obj: Object, _: datetime) -> str:
    """Name what an autoscaler scales."""
    return f"{look(obj, 'spec.scaleTargetRef.kind', '')}/{look(obj, 'spec.scaleTargetRef.name', '')}"


def minimum(obj: Object, _: datetime) -> str:
    """Tell an autoscaler's lower bound."""
    return str(look(obj, "spec.minReplicas", UNSET))


_REPLICAS: Printer = {
    "Name": name,
    "Desired": field("spec.replicas", 0),
    "Current": field("status.replicas", 0),
    "Ready": field("status.readyReplicas", 0),
    "Age": age,
    **containers_of("spec.template"),
}

PRINTERS: Mapping[Kind, Printer] = {
    ("", "PodTemplate"): {
        "Name": name,
        **containers_of("template"),
        "Pod Labels": labels_at("template.metadata.labels"),
    },
    ("", "ReplicationController"): {**_REPLICAS, "Selector": labels_at("spec.selector")},
    ("apps", "ReplicaSet"): {**_REPLICAS, "Selector": selector_at("spec.selector")},
    ("apps", "Deployment"): {
        "Name": name,
        "Ready": ready,
        "Up-to-date": field("status.updatedReplicas", 0),
        "Available": field("status.availableReplicas", 0),
        "Age": age,
        **containers_of("spec.template"),
        "Selector": selector_at("spec.selector", ""),
    },
    ("apps", "StatefulSet"): {"Name": name, "Ready": ready, "Age": age, **containers_of("spec.template")},
    ("apps", "DaemonSet"): {
        "Name": name,
        "Desired": field("status.desiredNumberScheduled", 0),
        "Current": field("status.currentNumberScheduled", 0),
        "Ready": field("status.numberReady", 0),
        "Up-to-date": field("status.updatedNumberScheduled", 0),
        "Available": field("status.numberAvailable", 0),
        "Node Selector": labels_at("spec.template.spec.nodeSelector"),
        "Age": age,
        **containers_of("spec.template"),
        "Selector": selector_at("spec.selector"),
    },
    ("apps", "ControllerRevision"): {
        "Name": name,
        "Controller": controller,
        "Revision": field("revision", 0),
        "Age": age,
    },
    ("batch", "Job"): {
        "Name": name,
        "Status": job_status,
        "Completions": completions,
        "Duration": duration,
        "Age": age,
        **containers_of("spec.template"),
        "Selector": selector_at("spec.selector"),
    },
    ("batch", "CronJob"): {
        "Name": name,
        "Schedule": field("spec.schedule"),
        "Timezone": field("spec.timeZone", NONE),
        "Suspend": boolean("spec.suspend"),
        "Active": count("status.active"),
        "Last Schedule": since("status.lastScheduleTime", NONE),
        "Age": age,
        **containers_of("spec.jobTemplate.spec.template"),
        "Selector": selector_at("spec.jobTemplate.spec.selector"),
    },
    ("autoscaling", "Scale"): {
        "Name": name,
        "Desired": field("spec.replicas", 0),
        "Available": field("status.replicas", 0),
        "Age": age,
    },
    ("autoscaling", "HorizontalPodAutoscaler"): {
        "Name": name,
        "Reference": reference,
        "Targets": metrics,
        "MinPods": minimum,
        "MaxPods": field("spec.maxReplicas", 0),
        "Replicas": field("status.currentReplicas", 0),
        "Age": age,
    },
}
