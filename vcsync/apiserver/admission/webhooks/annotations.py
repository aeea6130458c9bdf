"""Annotates audit events with calls of webhooks, in kube-apiserver's form. Pure."""

from typing import Any

import msgspec

from vcsync.apiserver.admission.webhooks.hooks import Hook
from vcsync.apiserver.request.audit_trail import Level, Trail

_MUTATION = "mutation.webhook.admission.k8s.io/"
_PATCH = "patch.webhook.admission.k8s.io/"
_VALIDATING = "validating.webhook.admission.k8s.io/"


def mutated(trail: Trail, hook: Hook, round_: int, *, changed: bool) -> None:
    """Record that a mutating webhook was called, and whether it changed the object."""
    if trail.level:
        value = {"configuration": hook.configuration, "webhook": hook.name, "mutated": changed}
        trail.annotate(f"{_MUTATION}round_{round_}_index_{hook.position}", _json(value))


def patched(trail: Trail, hook: Hook, round_: int, patch: list[Any]) -> None:
    """Record the patch of a webhook, if the audit level of the request includes bodies."""
    if trail.level >= Level.REQUEST:
        value = {
            "configuration": hook.configuration,
            "webhook": hook.name,
            "patch": patch,
            "patchType": "JSONPatch",
        }
        trail.annotate(f"{_PATCH}round_{round_}_index_{hook.position}", _json(value), Level.REQUEST)


def failed_open(trail: Trail, hook: Hook, round_: int, *, mutating: bool) -> None:
    """Record that a webhook failed and that its failure policy ignores the failure."""
    prefix = _MUTATION if mutating else _VALIDATING
    trail.annotate(f"failed-open.{prefix}round_{round_}_index_{hook.position}", hook.name)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
