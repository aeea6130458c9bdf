"""Sets, keeps and validates object metadata in the same way for all kinds. Pure.

Rules and messages: apimachinery's `api/validation/objectmeta.go`, apiserver's `registry/rest/{meta,create,update}.go`.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from vcsync.apimachinery import tenant_marks
from vcsync.apimachinery.errors import FieldError, bad_request, not_allowed, required, wrong
from vcsync.apimachinery.resources import Resource
from vcsync.apimachinery.strategy import Behaviour, Object
from vcsync.apimachinery.validation import fields as rules
from vcsync.apimachinery.validation import names
from vcsync.apiserver.registry import repeated_findings
from vcsync.apiserver.request.options import manager_findings
from vcsync.objects.generated_names import ALPHABET, LONGEST_NAME, SUFFIX

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
SYSTEM_FIELDS = ("creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")
IMMUTABLE = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
STANDARD_FINALIZERS = frozenset({"kubernetes", ORPHAN, FOREGROUND})
MAX_CONTROLLER_FINDINGS = 10
"""Most findings about a second controller. Each finding holds all owner references, so thousands would fill the memory."""


def wipe(metadata: Object) -> None:
    """Remove the fields that only the server sets."""
    for key in SYSTEM_FIELDS:
        metadata.pop(key, None)
    tenant_marks.remove(metadata)


def fill(metadata: Object, uid: str, now: str) -> None:
    """Set the fields that the server sets on creation.

    Args:
        metadata: Metadata of the object, changed in place.
        uid: UID of the object.
        now: Time of the request in RFC 3339.
    """
    metadata["uid"] = uid
    metadata["creationTimestamp"] = now


def generated(prefix: str) -> str:
    """Return a name with a random suffix for a `generateName`."""
    return prefix[: LONGEST_NAME - SUFFIX] + "".join(secrets.choice(ALPHABET) for _ in range(SUFFIX))


def settle_namespace(metadata: Object, namespace: str) -> None:
    """Set the namespace of an object to that of the request.

    Args:
        metadata: Metadata of the object, changed in place.
        namespace: Namespace of the request. Empty: the kind is cluster-scoped.

    Raises:
        StatusError: 400 if the object names another namespace.
    """
    named = metadata.get("namespace") or ""
    if named and namespace and named != namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if namespace:
        metadata["namespace"] = namespace
    else:
        metadata.pop("namespace", None)


def check_name(metadata: Mapping[str, Any], name: str, namespace: str) -> None:
    """Refuse an update whose object is not the one that the URL names.

    Raises:
        StatusError: 400 if the name is missing, or if the name or the namespace differs.
    """
    named = metadata.get("name") or ""
    if not named:
        raise bad_request(
            f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )
    if named != name:
        raise bad_request(f"the name of the object ({named}) does not match the name on the URL ({name})")
    space = metadata.get("namespace") or ""
    if namespace and space and space != namespace:
        raise bad_request(
            f"the namespace of the object ({space}) does not match the namespace on the request ({namespace})"
        )


def keep(new: Object, old: Object) -> None:
    """Restore the fields of the metadata that an update cannot change."""
    if not new.get("uid"):
        new["uid"] = old.get("uid", "")
    for key in ("creationTimestamp", "deletionTimestamp"):
        if old.get(key) is not None:
            new[key] = old[key]
    if old.get("deletionGracePeriodSeconds") is not None and new.get("deletionGracePeriodSeconds") is None:
        new["deletionGracePeriodSeconds"] = old["deletionGracePeriodSeconds"]
    _set(new, "generation", old.get("generation"))
    tenant_marks.remove(new)


def _set(metadata: Object, key: str, value: Any) -> None:
    if value is None:
        metadata.pop(key, None)
    else:
        metadata[key] = value


def drop_duplicate_owners(metadata: Object) -> list[str]:
    """Drop duplicate owner references. Returns the warning about them, if any."""
    owners = metadata.get("ownerReferences")
    if not owners:
        return []
    kept: dict[bytes, Any] = {}
    duplicates: dict[str, None] = {}
    for each in owners:
        known = msgspec.json.encode(each, order="sorted")
        if known in kept:
            duplicates[each.get("uid", "")] = None
        kept.setdefault(known, each)
    if not duplicates:
        return []
    metadata["ownerReferences"] = list(kept.values())
    warning = (
        ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, "
        "and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: "
    )
    return [warning + ", ".join(duplicates)]


def findings(
    metadata: Object, *, resource: Resource, own_name: bool, behaviour: Behaviour
) -> list[FieldError]:
    """Validate the metadata of an object.

    Args:
        metadata: Metadata of the object.
        resource: Resource of the object.
        own_name: Whether the kind's own rules apply: its rule for names instead of the one for path segments, and its
            rule for finalizers.
        behaviour: Behaviour of the kind.

    Returns:
        The findings in kube-apiserver's order.
    """
    rule: Callable[[str, bool], list[str]] = names.segment_name
    if own_name:
        rule = behaviour.name or names.subdomain_name
    found: list[FieldError] = []
    prefix, name = metadata.get("generateName") or "", metadata.get("name") or ""
    if prefix:
        found += [wrong("metadata.generateName", prefix, each) for each in rule(prefix, True)]
    if name:
        found += [wrong("metadata.name", name, each) for each in rule(name, False)]
    else:
        found.append(required("metadata.name", "name or generateName is required"))
    found += _namespace(metadata, resource.namespaced) + _common(metadata)
    checked = own_name and repeated_findings.checks_finalizers(resource)
    return found + (standard_finalizers(metadata) if checked else [])


def all_update_findings(
    new: Object, old: Object, *, resource: Resource, behaviour: Behaviour
) -> tuple[list[FieldError], list[FieldError]]:
    """Validate the metadata of an updated object. Each finding appears as often as kube-apiserver repeats it.

    Returns:
        The findings before those of the kind's own rules, and the findings after the rules of a create.
    """
    repeats = repeated_findings.times_changed(resource) - 1
    unqualified = standard_finalizers(new) if repeated_findings.checks_finalizers(resource) else []
    changes = update_findings(new, old)
    repeated = (changes + unqualified) * repeats
    later = repeated if repeated_findings.after_rules(resource) else []
    found = findings(new, resource=resource, own_name=False, behaviour=behaviour) + changes
    if not later:
        found += repeated
    if found or unqualified:
        whole = findings(new, resource=resource, own_name=True, behaviour=behaviour)
        found += whole * repeated_findings.times_whole(resource)
    return found, later


def update_findings(new: Object, old: Object) -> list[FieldError]:
    """Return findings for changes of metadata that are not allowed."""
    found: list[FieldError] = []
    if old.get("deletionTimestamp"):
        extra = sorted(set(new.get("finalizers") or ()) - set(old.get("finalizers") or ()))
        if extra:
            quoted = ", ".join(f'"{each}"' for each in extra)
            found.append(
                not_allowed(
                    "metadata.finalizers",
                    "no new finalizers can be added if the object is being deleted, "
                    f"found new finalizers []string{{{quoted}}}",
                )
            )
    found += [
        wrong(f"metadata.{key}", new.get(key), "field is immutable")
        for key in IMMUTABLE
        if (new.get(key) or None) != (old.get(key) or None)
    ]
    found += rules.labels("metadata.labels", new.get("labels") or {})
    found += rules.annotations("metadata.annotations", new.get("annotations") or {})
    found += _owners(new.get("ownerReferences") or ())
    found += _managed(new.get("managedFields") or ())
    return found


def _namespace(metadata: Object, namespaced: bool) -> list[FieldError]:
    namespace, path = metadata.get("namespace") or "", "metadata.namespace"
    if not namespaced:
        return [not_allowed(path, "not allowed on this type")] if namespace else []
    if not namespace:
        return [required(path)]
    return [wrong(path, namespace, each) for each in names.dns_label(namespace)]


def _common(metadata: Object) -> list[FieldError]:
    found: list[FieldError] = []
    generation = metadata.get("generation") or 0
    if generation < 0:
        found.append(wrong("metadata.generation", generation, "must be greater than or equal to 0"))
    found += rules.labels("metadata.labels", metadata.get("labels") or {})
    found += rules.annotations("metadata.annotations", metadata.get("annotations") or {})
    found += _owners(metadata.get("ownerReferences") or ())
    found += _finalizers(metadata.get("finalizers") or ())
    found += _managed(metadata.get("managedFields") or ())
    return found


def _owners(owners: Sequence[Mapping[str, Any]]) -> list[FieldError]:
    found, controller, controller_findings, path = [], "", 0, "metadata.ownerReferences"
    for each in owners:
        version = str(each.get("apiVersion") or "")
        if not version.rpartition("/")[2]:
            found.append(wrong(f"{path}.apiVersion", version, "version must not be empty"))
        missing = [key for key in ("kind", "name", "uid") if not each.get(key)]
        found += [wrong(f"{path}.{key}", "", "must not be empty") for key in missing]
        if version == "v1" and each.get("kind") == "Event":
            found.append(wrong(path, each, "/v1, Kind=Event is disallowed from being an owner"))
        if each.get("controller"):
            this = f"{each.get('kind', '')}/{each.get('name', '')}"
            if controller and controller_findings < MAX_CONTROLLER_FINDINGS:
                controller_findings += 1
                found.append(
                    wrong(
                        path,
                        owners,
                        "Only one reference can have Controller set to true. "
                        f'Found "true" in references for {controller} and {this}',
                    )
                )
            controller = controller or this
    return found


def _finalizers(finalizers: Sequence[str]) -> list[FieldError]:
    path = "metadata.finalizers"
    found = [wrong(path, each, word) for each in finalizers for word in names.qualified_name(each)]
    if ORPHAN in finalizers and FOREGROUND in finalizers:
        found.append(wrong(path, list(finalizers), f"finalizer {ORPHAN} and {FOREGROUND} cannot be both set"))
    return found


def standard_finalizers(metadata: Object) -> list[FieldError]:
    """Return findings for finalizers that have no domain and are not Kubernetes' own."""
    why = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        wrong(f"metadata.finalizers[{at}]", each, why)
        for at, each in enumerate(metadata.get("finalizers") or ())
        if "/" not in each and each not in STANDARD_FINALIZERS
    ]


def _managed(entries: Sequence[Mapping[str, Any]]) -> list[FieldError]:
    found = []
    for at, each in enumerate(entries):
        path = f"metadata.managedFields[{at}]"
        if each.get("operation") not in ("Apply", "Update"):
            found.append(
                wrong(f"{path}.operation", each.get("operation") or "", "must be `Apply` or `Update`")
            )
        if each.get("fieldsType") not in (None, "", "FieldsV1"):
            found.append(wrong(f"{path}.fieldsType", each["fieldsType"], "must be `FieldsV1`"))
        found += manager_findings(each.get("manager") or "", f"{path}.manager")
    return found
