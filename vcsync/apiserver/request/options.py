"""The options of requests: ListOptions, CreateOptions, UpdateOptions, PatchOptions, DeleteOptions. Pure.

Rules and words: apimachinery's `apis/meta/v1/validation` and `apis/meta/internalversion/validation`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vcsync.apimachinery.errors import (
    FieldError,
    bad_request,
    invalid,
    not_allowed,
    not_supported,
    required,
    too_long,
    wrong,
)
from vcsync.apiserver.request.request_info import Query, truth

META_GROUP = "meta.k8s.io"
NOT_OLDER_THAN, EXACT = "NotOlderThan", "Exact"
POLICIES = ("Foreground", "Background", "Orphan")
FIELD_VALIDATIONS = ("", "Ignore", "Strict", "Warn")
MAX_MANAGER = 128


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Options of lists, watches and deletions of collections. Selectors are parsed separately; see `selectors`."""

    watch: bool = False
    bookmarks: bool = False
    resource_version: str = ""
    match: str = ""
    limit: int = 0
    continue_: str = ""
    timeout_seconds: int = 0
    send_initial_events: bool | None = None


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Options of creates, updates and patches. `force` is None if it is not given; `told_validation` is as given."""

    dry_run: bool = False
    manager: str = ""
    validation: str = "Warn"
    force: bool | None = None
    told_validation: str = ""

    def as_object(self) -> dict[str, Any]:
        """Return CreateOptions or UpdateOptions as in the API, without kind and apiVersion."""
        told: dict[str, Any] = {"dryRun": ["All"]} if self.dry_run else {}
        if self.manager:
            told["fieldManager"] = self.manager
        if self.told_validation:
            told["fieldValidation"] = self.told_validation
        return told


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """Options of deletions. None: not given."""

    dry_run: bool = False
    grace_seconds: int | None = None
    policy: str | None = None
    orphan: bool | None = None
    uid: str | None = None
    resource_version: str | None = None

    def as_object(self) -> dict[str, Any]:
        """Return DeleteOptions as in the API, without kind and apiVersion."""
        conditions = {"uid": self.uid, "resourceVersion": self.resource_version}
        preconditions = {name: value for name, value in conditions.items() if value is not None}
        told = {
            "gracePeriodSeconds": self.grace_seconds,
            "preconditions": preconditions or None,
            "orphanDependents": self.orphan,
            "propagationPolicy": self.policy,
            "dryRun": ["All"] if self.dry_run else None,
        }
        return {name: value for name, value in told.items() if value is not None}


def list_options(query: Query, *, watch: bool = False) -> ListOptions:
    """Parse the options of a list or watch. `watch`: the path names the verb.

    Raises:
        StatusError: 400, an option cannot be parsed; 422, it is not allowed.
    """
    if not query:
        return ListOptions(watch=watch)
    initial = query.get("sendInitialEvents")
    options = ListOptions(
        watch=truth(query.get("watch", ())) or watch,
        bookmarks=truth(query.get("allowWatchBookmarks", ())),
        resource_version=_text(query, "resourceVersion"),
        match=_text(query, "resourceVersionMatch"),
        limit=number(query, "limit") or 0,
        continue_=_text(query, "continue"),
        timeout_seconds=number(query, "timeoutSeconds") or 0,
        send_initial_events=truth(initial) if initial else None,
    )
    findings = _watch_findings(options) if options.watch else _list_findings(options)
    if findings:
        raise invalid("ListOptions", META_GROUP, "", findings)
    return options


def _list_findings(options: ListOptions) -> list[FieldError]:
    findings = []
    path = "resourceVersionMatch"
    if options.match:
        if not options.resource_version:
            findings.append(not_allowed(path, f"{path} is forbidden unless resourceVersion is provided"))
        if options.continue_:
            findings.append(not_allowed(path, f"{path} is forbidden when continue is provided"))
        if options.match not in (EXACT, NOT_OLDER_THAN):
            findings.append(not_supported(path, options.match, (EXACT, NOT_OLDER_THAN, "")))
        if options.match == EXACT and options.resource_version == "0":
            findings.append(not_allowed(path, f'{path} "exact" is forbidden for resourceVersion "0"'))
    if options.send_initial_events is not None:
        findings.append(not_allowed("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return findings


def _watch_findings(options: ListOptions) -> list[FieldError]:
    findings = []
    path = "resourceVersionMatch"
    if options.send_initial_events is not None and options.match != NOT_OLDER_THAN:
        findings.append(not_allowed(path, f"sendInitialEvents requires setting {path} to {NOT_OLDER_THAN}"))
    if options.match:
        if options.send_initial_events is None:
            findings.append(
                not_allowed(path, f"{path} is forbidden for watch unless sendInitialEvents is provided")
            )
        if options.match != NOT_OLDER_THAN:
            findings.append(not_supported(path, options.match, (NOT_OLDER_THAN,)))
    if options.continue_:
        findings.append(not_allowed(path, f"{path} is forbidden when continue is provided"))
    return findings


def write_options(query: Query, kind: str, *, apply: bool | None = None) -> WriteOptions:
    """Parse the options of a create, update or patch.

    Args:
        query: Parameters of the URL.
        kind: `CreateOptions`, `UpdateOptions` or `PatchOptions`, for messages.
        apply: Whether a patch is a server-side apply. None: the request is not a patch.

    Raises:
        StatusError: 422.
    """
    if not query and apply is not True:
        return WriteOptions()
    dry_run = query.get("dryRun", ())
    manager, validation = _text(query, "fieldManager"), _text(query, "fieldValidation")
    force = query.get("force") if apply is not None else None
    findings = []
    if apply and not manager:
        findings.append(required("fieldManager", "is required for apply patch"))
    if apply is False and force is not None:
        findings.append(not_allowed("force", "may not be specified for non-apply patch"))
    findings += manager_findings(manager, "fieldManager") + _dry_run_findings(dry_run)
    if validation not in FIELD_VALIDATIONS:
        findings.append(not_supported("fieldValidation", validation, FIELD_VALIDATIONS))
    if findings:
        raise invalid(kind, META_GROUP, "", findings)
    return WriteOptions(
        dry_run=bool(dry_run),
        manager=manager,
        validation=validation or "Warn",
        force=truth(force) if force is not None else None,
        told_validation=validation,
    )


def delete_options(query: Query, body: Mapping[str, Any] | None) -> DeleteOptions:
    """Parse the options of a deletion, from its body if it has one, otherwise from the query.

    Raises:
        StatusError: 400, 422.
    """
    if body is None:
        orphan = query.get("orphanDependents")
        dry_run: Any = query.get("dryRun", ())
        policy = _text(query, "propagationPolicy") if query.get("propagationPolicy") else None
        options = DeleteOptions(
            dry_run=bool(dry_run),
            grace_seconds=number(query, "gracePeriodSeconds"),
            policy=policy,
            orphan=truth(orphan) if orphan else None,
        )
    else:
        conditions = body.get("preconditions") or {}
        dry_run = body.get("dryRun") or ()
        options = DeleteOptions(
            dry_run=bool(dry_run),
            grace_seconds=body.get("gracePeriodSeconds"),
            policy=body.get("propagationPolicy"),
            orphan=body.get("orphanDependents"),
            uid=conditions.get("uid"),
            resource_version=conditions.get("resourceVersion"),
        )
    findings = _delete_findings(options, dry_run)
    if findings:
        raise invalid("DeleteOptions", META_GROUP, "", findings)
    return options


def _delete_findings(options: DeleteOptions, dry_run: Sequence[str]) -> list[FieldError]:
    findings = []
    if options.orphan is not None and options.policy is not None:
        findings.append(
            wrong(
                "propagationPolicy",
                options.policy,
                "orphanDependents and deletionPropagation cannot be both set",
            )
        )
    if options.policy is not None and options.policy not in POLICIES:
        findings.append(not_supported("propagationPolicy", options.policy, (*POLICIES, "nil")))
    return findings + _dry_run_findings(dry_run)


def manager_findings(manager: str, path: str) -> list[FieldError]:
    """Return the errors of a field manager's name."""
    findings = []
    if len(manager.encode()) > MAX_MANAGER:
        findings.append(too_long(path, MAX_MANAGER))
    if manager.isprintable():  # fast path: an object may have many names
        return findings
    at = 0
    for character in manager:
        if not (character.isprintable() or character == " "):
            name = f"U+{ord(character):04X}"
            findings.append(wrong(path, manager, f"invalid character {name} (at position {at})"))
        at += len(character.encode())
    return findings


def _dry_run_findings(values: Sequence[str]) -> list[FieldError]:
    if all(each == "All" for each in values):
        return []
    return [not_supported("dryRun", list(values), ("All",))]


def _text(query: Query, key: str) -> str:
    values = query.get(key)
    return values[0] if values else ""


def number(query: Query, key: str) -> int | None:
    """Return a number parameter, or None if it is not given.

    Raises:
        StatusError: 400 with Go's message, it is not a number.
    """
    values = query.get(key)
    if not values:
        return None
    text = values[0]
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not (digits.isascii() and digits.isdigit()):
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    number = int(text) if len(digits) <= 20 else 2**64
    if not -(2**63) <= number < 2**63:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": value out of range')
    return number
