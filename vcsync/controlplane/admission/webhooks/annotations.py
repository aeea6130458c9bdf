"""What the audit log is told of webhooks, in kube-apiserver's form. Pure."""

from typing import Any

import msgspec

from vcsync.controlplane.admission.webhooks.hooks import Hook
from vcsync.controlplane.audit.trail import Level, Trail

_MUTATION = "mutation.webhook.admission.k8s.io/"
_PATCH = "patch.webhook.admission.k8s.io/"
_VALIDATING = "validating.webhook.admission.k8s.io/"


def mutated(trail: Trail, hook: Hook, turn: int, *, changed: bool) -> None:
    """Tell that a webhook was asked, and whether it changed the object."""
    if trail.level:
        told = {"configuration": hook.configuration, "webhook": hook.name, "mutated": changed}
        trail.annotate(f"{_MUTATION}round_{turn}_index_{hook.position}", _json(told))


def patched(trail: Trail, hook: Hook, turn: int, patch: list[Any]) -> None:
    """Tell how a webhook changed the object."""
    if trail.level >= Level.REQUEST:
        told = {
            "configuration": hook.configuration,
            "webhook": hook.name,
            "patch": patch,
            "patchType": "JSONPatch",
        }
        trail.annotate(f"{_PATCH}round_{turn}_index_{hook.position}", _json(told), Level.REQUEST)


def failed_open(trail: Trail, hook: Hook, turn: int, *, mutating: bool) -> None:
    """Tell that a webhook failed and was ignored."""
    prefix = _MUTATION if mutating else _VALIDATING
    trail.annotate(f"failed-open.{prefix}round_{turn}_index_{hook.position}", hook.name)


def _json(told: Any) -> str:
    return msgspec.json.encode(told).decode()
