"""Metadata: what the server fills in, keeps and refuses, the same for all kinds. Pure.

Rules and words: apimachinery's `api/validation/objectmeta.go`, apiserver's `registry/rest/{meta,create,update}.go`.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from vcsync.controlplane.behaviour import Behaviour, Object
from vcsync.controlplane.errors import FieldError, bad_request, not_allowed, required, wrong
from vcsync.controlplane.kinds import names, rules
from vcsync.controlplane.resources import Resource
from vcsync.controlplane.rest.options import manager_findings

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
MAX_NAME, SUFFIX = 63, 5
ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""Of generated suffixes: no vowels, nothing that looks like another."""
STANDARD_FINALIZERS = frozenset({"kubernetes", ORPHAN, FOREGROUND})
MAX_CONTROLLERS_TOLD = 10
"""Owners too many that are told of: every finding holds them all, so that thousands would fill the memory."""


def wipe(metadata: Object) -> None:
    """Drop what only the server sets."""
    for key in SYSTEM_FIELDS:
        metadata.pop(key, None)


def fill(metadata: Object, uid: str, now: str) -> None:
    """Set what the server sets on creation."""
    metadata["uid"] = uid
    metadata["creationTimestamp"] = now


def generated(prefix: str) -> str:
    """Make a name of a `generateName`."""
    return prefix[: MAX_NAME - SUFFIX] + "".join(secrets.choice(ALPHABET) for _ in range(SUFFIX))


def settle_namespace(metadata: Object, namespace: str) -> None:
    """Give an object the namespace of the request; empty: it is in none.

    Raises:
        StatusError: 400, it says another.
    """
    said = metadata.get("namespace") or ""
    if said and namespace and said != namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if namespace:
        metadata["namespace"] = namespace
    else:
        metadata.pop("namespace", None)


def check_name(metadata: Mapping[str, Any], name: str, namespace: str) -> None:
    """Refuse an update whose object is not the one of the URL.

    Raises:
        StatusError: 400.
    """
    said = metadata.get("name") or ""
    if not said:
        raise bad_request(
            f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )
    if said != name:
        raise bad_request(f"the name of the object ({said}) does not match the name on the URL ({name})")
    space = metadata.get("namespace") or ""
    if namespace and space and space != namespace:
        raise bad_request(
            f"the namespace of the object ({space}) does not match the namespace on the request ({namespace})"
        )


def keep(new: Object, old: Object) -> None:
    """Keep in an update's metadata what an update cannot change."""
    if not new.get("uid"):
        new["uid"] = old.get("uid", "")
    for key in ("creationTimestamp", "deletionTimestamp"):
        if old.get(key) is not None:
            new[key] = old[key]
    if old.get("deletionGracePeriodSeconds") is not None and new.get("deletionGracePeriodSeconds") is None:
        new["deletionGracePeriodSeconds"] = old["deletionGracePeriodSeconds"]
    _set(new, "generation", old.get("generation"))


def _set(metadata: Object, key: str, value: Any) -> None:
    if value is None:
        metadata.pop(key, None)
    else:
        metadata[key] = value


def drop_duplicate_owners(metadata: Object) -> list[str]:
    """Drop owner references that stand twice; return the warning."""
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
    told = (
        ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, "
        "and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: "
    )
    return [told + ", ".join(duplicates)]


def findings(
    metadata: Object, *, resource: Resource, own_name: bool, behaviour: Behaviour
) -> list[FieldError]:
    """Return what is wrong with an object's metadata.

    `own_name`: the kind's own rule for names, not the rule of all kinds (path segments), is asked too.
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
    built_in = own_name and not resource.custom
    return found + (standard_finalizers(metadata) if built_in else [])


def update_findings(new: Object, old: Object) -> list[FieldError]:
    """Return which changes of metadata are not allowed."""
    found: list[FieldError] = []
    if old.get("deletionTimestamp"):
        extra = sorted(set(new.get("finalizers") or ()) - set(old.get("finalizers") or ()))
        if extra:
            said = ", ".join(f'"{each}"' for each in extra)
            found.append(
                not_allowed(
                    "metadata.finalizers",
                    "no new finalizers can be added if the object is being deleted, "
                    f"found new finalizers []string{{{said}}}",
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
    found += rules.labels("metadata.labels", metadata.get("labels") or {})
    found += rules.annotations("metadata.annotations", metadata.get("annotations") or {})
    found += _owners(metadata.get("ownerReferences") or ())
    found += _finalizers(metadata.get("finalizers") or ())
    found += _managed(metadata.get("managedFields") or ())
    return found


def _owners(owners: Sequence[Mapping[str, Any]]) -> list[FieldError]:
    found, controller, told, path = [], "", 0, "metadata.ownerReferences"
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
            if controller and told < MAX_CONTROLLERS_TOLD:
                told += 1
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
    """Return which finalizers have no domain and are none of Kubernetes' own."""
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
