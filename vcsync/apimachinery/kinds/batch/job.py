"""The kind Job: defaults, the generated selector, validation, allowed updates, warnings and columns. Pure.

Source: Kubernetes' `pkg/apis/batch/v1/defaults.go`, `pkg/apis/batch/validation`, `pkg/registry/batch/job`.
"""

from copy import deepcopy
from datetime import datetime

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.batch import job_status
from vcsync.apimachinery.kinds.batch.job_conditions import condition
from vcsync.apimachinery.kinds.batch.job_policies import failure_policy, replacement_policy, success_policy
from vcsync.apimachinery.kinds.common.defaults import fill
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.kinds.core import pod_defaults, pod_validation
from vcsync.apimachinery.kinds.core.pod_warnings import template_warnings
from vcsync.apimachinery.kinds.core.workloads import pods_hostname_warning
from vcsync.apimachinery.patch.resets import SPEC, STATUS
from vcsync.apimachinery.strategy import Context
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import (
    Findings,
    Object,
    immutable,
    items,
    nonnegative,
    number,
    one_of,
    part,
    say,
    selector,
    selects,
    text,
    understood,
)
from vcsync.apimachinery.wire import cells

NAME_LABELS = ("job-name", "batch.kubernetes.io/job-name")
UID_LABELS = ("controller-uid", "batch.kubernetes.io/controller-uid")
_MODES = ("NonIndexed", "Indexed")
_COUNTS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_SOFT = 100_000
_HARD = 10_000
_WITH_LIMIT = "when completions are above 100000 and used with backoff limit per index"


def default_job_spec(spec: Object) -> None:
    """Set the defaults that Jobs and the Job templates of CronJobs share."""
    pod_defaults.template(spec.get("template"))
    for rule in items(part(spec, "podFailurePolicy"), "rules"):
        for each in items(rule, "onPodConditions"):
            if not text(each, "status"):
                each["status"] = "True"


def default(found: Object) -> None:
    """Set the defaults of a Job."""
    spec = found.get("spec")
    if not isinstance(spec, dict):
        return
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    labels = part(spec, "template", "metadata", "labels")
    if labels and not part(found, "metadata", "labels"):
        # Job and template share one map, as upstream: the Job gets the generated labels, too.
        found["metadata"]["labels"] = labels
    fill(
        spec,
        {
            "parallelism": 1,
            "backoffLimit": 2**31 - 1 if "backoffLimitPerIndex" in spec else 6,
            "completionMode": "NonIndexed",
            "suspend": False,
            "podReplacementPolicy": "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed",
            "manualSelector": False,
        },
    )
    default_job_spec(spec)


def prepare_create(new: Object, context: Context) -> None:
    """Generate the selector of a Job and the labels that it matches.

    A Job that was sent without labels has those of its template, with the generated ones: upstream's default makes them one map.
    """
    spec, metadata = new.setdefault("spec", {}), new["metadata"]
    template = spec.setdefault("template", {})
    if spec.get("manualSelector"):
        return
    inner = template.setdefault("metadata", {})
    labels = inner.get("labels") or {}
    if context.unlabelled and labels and metadata.get("labels") == labels:
        metadata["labels"] = labels
    for keys, value in ((NAME_LABELS, text(metadata, "name")), (UID_LABELS, text(metadata, "uid"))):
        for key in keys:
            labels.setdefault(key, value)
    inner["labels"] = labels
    # kube-apiserver gives a Job these labels when it reads the stored Job, so that validation never sees them. A name that
    # is no label value is refused in the template.
    if not metadata.get("labels") and not names.label_value(text(metadata, "name")):
        metadata["labels"] = dict(labels)
    chosen = dict(spec.get("selector") or {})
    chosen["matchLabels"] = {UID_LABELS[1]: text(metadata, "uid"), **(chosen.get("matchLabels") or {})}
    spec["selector"] = chosen


def _has_label(labels: Object, key: str, value: str) -> Findings:
    path = f"spec.template.metadata.labels[{key}]"
    if key not in labels:
        yield errors.required(path, f"must be '{value}'")
    elif labels[key] != value:
        yield errors.wrong(path, labels, f"must be '{value}'")


def _generated_selector(job: Object) -> Findings:
    spec, metadata = part(job, "spec"), part(job, "metadata")
    if spec.get("manualSelector") or spec.get("selector") is None:
        return
    uid, name = text(metadata, "uid"), text(metadata, "name")
    if not uid:
        yield errors.required("metadata.uid")
    labels = part(spec, "template", "metadata", "labels")
    expected = {UID_LABELS[0]: uid, NAME_LABELS[0]: name, UID_LABELS[1]: uid, NAME_LABELS[1]: name}
    for key, value in expected.items():
        yield from _has_label(labels, key, value)
    if understood(spec["selector"]) and not selects(spec["selector"], expected):
        yield errors.wrong("spec.selector", spec["selector"], "`selector` not auto-generated")


def job(found: Object) -> Findings:
    """Check a Job."""
    yield from _generated_selector(found)
    spec, name = part(found, "spec"), text(part(found, "metadata"), "name")
    yield from _selected_spec(spec)
    completions = number(spec, "completions")
    if spec.get("completionMode") == "Indexed" and completions > 0:
        longest = f"{name}-{completions - 1}"
        if names.dns_label(longest):
            message = f"will not able to create pod with invalid DNS label: {longest}"
            yield errors.wrong("metadata.name", name, message)


def _selected_spec(spec: Object) -> Findings:
    yield from job_spec("spec", spec)
    chosen = spec.get("selector")
    if chosen is None:
        yield errors.required("spec.selector")
    yield from selector("spec.selector", chosen)
    labels = part(spec, "template", "metadata", "labels")
    if understood(chosen) and not selects(chosen, labels):
        yield errors.wrong(
            "spec.template.metadata.labels", labels or None, "`selector` does not match template `labels`"
        )


def job_spec(path: str, spec: Object) -> Findings:
    """Check what Jobs and the Job templates of CronJobs share."""
    yield from nonnegative(spec, path, *_COUNTS)
    if "maxFailedIndexes" in spec and "backoffLimitPerIndex" not in spec:
        yield errors.required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    yield from _managed_by(f"{path}.managedBy", spec.get("managedBy"))
    mode = spec.get("completionMode")
    if mode is not None:
        yield from one_of(f"{path}.completionMode", mode, _MODES)
    if mode == "Indexed":
        yield from _indexed(path, spec)
    if mode in (None, "NonIndexed"):
        for key in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if key in spec:
                yield errors.wrong(f"{path}.{key}", spec[key], "requires indexed completion mode")
    if "podFailurePolicy" in spec:
        yield from failure_policy(f"{path}.podFailurePolicy", spec)
    if "successPolicy" in spec:
        yield from success_policy(f"{path}.successPolicy", spec)
    yield from replacement_policy(f"{path}.podReplacementPolicy", spec)
    yield from pod_validation.template(f"{path}.template", part(spec, "template"))
    yield from _restart_policy(f"{path}.template.spec.restartPolicy", spec)


def _managed_by(path: str, name: str | None) -> Findings:
    if name is None:
        return
    domain, slash, rest = name.partition("/")
    if not name:
        yield errors.required(path)
    elif not (slash and domain and rest):
        yield errors.wrong(path, name, 'must be a domain-prefixed path (such as "acme.io/foo")')
    else:
        yield from say(path, domain, names.dns_subdomain(domain))
        yield from say(path, rest, names.http_path(rest))
    if names.size(name) > 63:
        yield errors.too_long(path, 63)


def _indexed(path: str, spec: Object) -> Findings:
    completions, parallelism = spec.get("completions"), spec.get("parallelism")
    failed = spec.get("maxFailedIndexes")
    if completions is None:
        yield errors.required(f"{path}.completions", "when completion mode is Indexed")
    if parallelism is not None and parallelism > _SOFT:
        message = f"must be less than or equal to {_SOFT} when completion mode is Indexed"
        yield errors.wrong(f"{path}.parallelism", parallelism, message)
    if failed is not None:
        if completions is not None and failed > completions:
            yield errors.wrong(
                f"{path}.maxFailedIndexes", failed, "must be less than or equal to completions"
            )
        if failed > _SOFT:
            yield errors.wrong(f"{path}.maxFailedIndexes", failed, f"must be less than or equal to {_SOFT}")
    if completions is not None and completions > _SOFT and "backoffLimitPerIndex" in spec:
        if failed is None:
            yield errors.required(
                f"{path}.maxFailedIndexes", f"must be specified when completions is above {_SOFT}"
            )
        for key, value in (("parallelism", parallelism), ("maxFailedIndexes", failed)):
            if value is not None and value > _HARD:
                yield errors.wrong(
                    f"{path}.{key}", value, f"must be less than or equal to {_HARD} {_WITH_LIMIT}"
                )


def _restart_policy(path: str, spec: Object) -> Findings:
    policy = text(part(spec, "template", "spec"), "restartPolicy")
    if policy in ("Always", ""):
        yield errors.required(path, 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        yield errors.not_supported(path, policy, ("OnFailure", "Never"))
    elif "podFailurePolicy" in spec and policy != "Never":
        yield errors.wrong(path, policy, 'only "Never" is supported when podFailurePolicy is specified')


def validate_update(new: Object, old: Object) -> list[FieldError]:
    """Return the findings on an update of a Job."""
    spec, before = part(new, "spec"), part(old, "spec")
    found = [*job(new), *_selected_spec(spec)]
    found.extend(_completions(spec, before))
    found.extend(immutable("spec.selector", spec.get("selector"), before.get("selector")))
    found.extend(_template(spec, before, part(old, "status")))
    for key in ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"):
        found.extend(immutable(f"spec.{key}", spec.get(key), before.get(key)))
    return found


def _completions(spec: Object, before: Object) -> Findings:
    now = spec.get("completions")
    if spec.get("completionMode") != "Indexed":
        yield from immutable("spec.completions", now, before.get("completions"))
    elif now != before.get("completions") and now is not None and now != spec.get("parallelism"):
        yield errors.wrong("spec.completions", now, "can only be modified in tandem with spec.parallelism")


def _template(spec: Object, before: Object, status: Object) -> Findings:
    now, was = part(spec, "template"), deepcopy(part(before, "template"))
    suspended = before.get("suspend") is True
    waits = "startTime" not in status or condition(status, "Suspended")
    if not (suspended and waits and not status.get("active")):
        yield from immutable("spec.template", now, was)
        return
    for key in ("nodeSelector", "tolerations", "schedulingGates"):
        was["spec"].pop(key, None)
        if key in now["spec"]:
            was["spec"][key] = now["spec"][key]
    affinity = dict(part(was, "spec", "affinity"))
    affinity.pop("nodeAffinity", None)
    if "nodeAffinity" in part(now, "spec", "affinity"):
        affinity["nodeAffinity"] = now["spec"]["affinity"]["nodeAffinity"]
    was["spec"].pop("affinity", None)
    if affinity or part(now, "spec").get("affinity") == {}:
        was["spec"]["affinity"] = affinity
    for key in ("containers", "initContainers"):
        for fresh, kept in zip(items(now["spec"], key), items(was["spec"], key), strict=False):
            if text(fresh, "name") == text(kept, "name") and "resources" in fresh:
                kept["resources"] = fresh["resources"]
    yield from immutable("spec.template.spec", now["spec"], was["spec"])


def spec_warnings(path: str, spec: Object) -> list[str]:
    """Return the warnings about a Job's spec."""
    found = []
    if (
        spec.get("completionMode") == "Indexed"
        and number(spec, "completions") > _SOFT
        and number(spec, "parallelism") > _HARD
    ):
        found.append(
            f"{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4,"
            " Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
        )
    return found + template_warnings(f"{path}.template", part(spec, "template"))


def _job_warnings(new: Object, old: Object | None) -> list[str]:
    spec = part(new, "spec")
    if old is None:
        return pods_hostname_warning(new) + spec_warnings("spec", spec)
    return spec_warnings("spec", spec) if spec != part(old, "spec") else []


JOB_STATES = (
    ("Complete", "Complete"),
    ("Failed", "Failed"),
    ("", "Terminating"),
    ("Suspended", "Suspended"),
    ("FailureTarget", "FailureTarget"),
    ("SuccessCriteriaMet", "SuccessCriteriaMet"),
)
"""(condition, status that `kubectl get` shows), by precedence."""


def completions(obj: cells.Object, _: datetime) -> str:
    """Return a Job's successes and the number it needs."""
    done, wanted = cells.look(obj, "status.succeeded", 0), cells.look(obj, "spec.completions")
    if wanted is not None:
        return f"{done}/{wanted}"
    parallel = cells.look(obj, "spec.parallelism", 0)
    return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def duration(obj: cells.Object, now: datetime) -> str:
    """Return how long a Job has run, until it completed or until now."""
    start = cells.moment(cells.look(obj, "status.startTime"))
    return (
        ""
        if start is None
        else cells.lasting((cells.moment(cells.look(obj, "status.completionTime")) or now) - start)
    )


def state(obj: cells.Object, _: datetime) -> str:
    """Return a Job's state, from its conditions."""
    deleted = cells.look(obj, "metadata.deletionTimestamp") is not None
    return next(
        (text for kind, text in JOB_STATES if (cells.is_true(obj, kind) if kind else deleted)), "Running"
    )


KIND = Kind(
    group="batch",
    kind="Job",
    plural="jobs",
    generation=("spec",),
    status=True,
    pod_spec=("spec", "template", "spec"),
    default=default,
    prepare_create=prepare_create,
    validate=lambda found: list(job(found)),
    validate_update=validate_update,
    warnings=_job_warnings,
    fields=lambda found: {"status.successful": str(number(part(found, "status"), "succeeded"))},
    status_validate=job_status.validate,
    columns={
        "Name": cells.name,
        "Status": state,
        "Completions": completions,
        "Duration": duration,
        "Age": cells.age,
        **cells.containers_of("spec.template"),
        "Selector": cells.selector_at("spec.selector"),
    },
    resets={"": STATUS, "status": SPEC},
    repeats_finalizer_findings=True,
    repeats_metadata_after_rules=True,
    orphans_dependents=True,
)
