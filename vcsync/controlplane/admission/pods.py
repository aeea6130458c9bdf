"""What Pods are given, and must have, when they are created: account and token, priority, tolerations, runtime class.

Source: Kubernetes' `plugin/pkg/admission/{serviceaccount,priority,defaulttolerationseconds,runtimeclass}`.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from vcsync.controlplane.admission.plugin import Lookup, creates, refusal, spec_of
from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.rest.scope import Admission
from vcsync.kube.quantity import milli

MIRROR = "kubernetes.io/config.mirror"
ENFORCE_SECRETS = "kubernetes.io/enforce-mountable-secrets"
DEFAULT_ACCOUNT = "default"
TOKEN_VOLUME = "kube-api-access-"  # noqa: S105 - a name
TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a path
TOKEN_SECONDS = 3607
"""The odd number by which kubelets and API servers know the token that was not asked for."""
TOLERATION_SECONDS = 300
ACCOUNT_ATTEMPTS = 10
ACCOUNT_PAUSE_SECONDS = 0.15
"""A namespace's default account is made by a controller, a moment after the namespace."""
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_TRUE = {"1", "t", "T", "true", "TRUE", "True"}


class ServiceAccounts:
    """Gives Pods their ServiceAccount; a plug-in."""

    def __init__(
        self, attempts: int = ACCOUNT_ATTEMPTS, pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        """Take how often a default account is looked for, and what waits between, given seconds."""
        self._attempts = attempts
        self._pause = pause

    async def __call__(self, admission: Admission, lookup: Lookup) -> None:
        """Give a Pod its ServiceAccount, that one's pull Secrets and a token for the API.

        Raises:
            StatusError: 403 there is no such account, or it may not use a Secret.
        """
        if not creates(admission, "pods"):
            return
        spec = spec_of(admission)
        if MIRROR in _annotations(admission.new):
            _check_mirror(admission, spec)
            return
        name = spec.get("serviceAccountName") or DEFAULT_ACCOUNT
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        account = await self._account(admission, lookup, name)
        automount = spec.get("automountServiceAccountToken")
        if automount is None:
            automount = account.get("automountServiceAccountToken", True)
        if automount:
            _mount_token(spec)
        if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
            spec["imagePullSecrets"] = [
                {"name": each.get("name", "")} for each in account["imagePullSecrets"]
            ]
        if _annotations(account).get(ENFORCE_SECRETS) in _TRUE:
            _check_secrets(admission, spec, account)

    async def _account(self, admission: Admission, lookup: Lookup, name: str) -> Object:
        tenant, namespace = admission.scope.tenant, admission.scope.namespace
        for attempt in range(self._attempts if name == DEFAULT_ACCOUNT else 1):
            if attempt:
                await self._pause(ACCOUNT_PAUSE_SECONDS)
            found = await lookup.get(tenant, "", "serviceaccounts", name, namespace)
            if found is not None:
                return found
        missing = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
        raise refusal(admission, missing)


def _check_mirror(admission: Admission, spec: Object) -> None:
    if spec.get("serviceAccountName"):
        raise refusal(admission, "a mirror pod may not reference service accounts")
    if any(True for _ in _secrets_used(spec)) or any("secret" in each for each in spec.get("volumes") or ()):
        raise refusal(admission, "a mirror pod may not reference secrets")


def _mount_token(spec: Object) -> None:
    volumes = spec.get("volumes") or []
    name = next((each["name"] for each in volumes if str(each.get("name")).startswith(TOKEN_VOLUME)), "")
    made = name or TOKEN_VOLUME + "".join(secrets.choice(_ALPHABET) for _ in range(5))
    needed = False
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        mounts = container.get("volumeMounts") or []
        if not any(each.get("mountPath") == TOKEN_PATH for each in mounts):
            container["volumeMounts"] = [*mounts, {"name": made, "readOnly": True, "mountPath": TOKEN_PATH}]
            needed = True
    if needed and not name:
        spec["volumes"] = [*volumes, {"name": made, "projected": _token_sources()}]


def _token_sources() -> Object:
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {
                "downwardAPI": {
                    "items": [
                        {
                            "path": "namespace",
                            "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                        }
                    ]
                }
            },
        ],
        "defaultMode": 0o644,
    }


def _check_secrets(admission: Admission, spec: Object, account: Object) -> None:
    """Hold an account that enforces it to the Secrets it lists."""
    allowed = {each.get("name") for each in account.get("secrets") or ()}
    who = f"is not allowed because service account {account['metadata']['name']} does not reference that"
    for volume in spec.get("volumes") or ():
        name = (volume.get("secret") or {}).get("secretName")
        if name is not None and name not in allowed:
            raise refusal(admission, f'volume with secret.secretName="{name}" {who} secret')
    for place, name in _secrets_used(spec):
        if name not in allowed:
            raise refusal(admission, f'{place} referencing secret.secretName="{name}" {who} secret')
    pulled = {each.get("name") for each in account.get("imagePullSecrets") or ()}
    for position, each in enumerate(spec.get("imagePullSecrets") or ()):
        if each.get("name") not in pulled:
            where = f'imagePullSecrets[{position}].name="{each.get("name")}"'
            raise refusal(admission, f"{where} {who} imagePullSecret")


def _secrets_used(spec: Object) -> Iterable[tuple[str, str]]:
    """Yield each Secret in containers' environments, and where it is used as messages say it."""
    for what, field in (("init container", "initContainers"), ("container", "containers")):
        for container in spec.get(field) or ():
            place = f"{what} {container.get('name')}"
            for variable in container.get("env") or ():
                reference = (variable.get("valueFrom") or {}).get("secretKeyRef")
                if reference is not None:
                    yield f"{place} with envVar {variable.get('name')}", reference.get("name", "")
            for source in container.get("envFrom") or ():
                if source.get("secretRef") is not None:
                    yield f"{place} with envFrom", source["secretRef"].get("name", "")


async def priority(admission: Admission, lookup: Lookup) -> None:
    """Resolve a Pod's PriorityClass; keep what it came to on updates.

    Raises:
        StatusError: 403 there is no such class, or the Pod says otherwise.
    """
    resource, old = admission.scope.kind.resource, admission.old
    if (resource.group, resource.plural) != ("", "pods") or admission.scope.subresource:
        return
    if admission.operation == "CREATE":
        await _resolve(admission, lookup, spec_of(admission))
    elif admission.operation == "UPDATE" and old is not None:
        spec = spec_of(admission)
        for field in ("priority", "preemptionPolicy"):
            if spec.get(field) is None and field in (old.get("spec") or {}):
                spec[field] = old["spec"][field]


async def one_default_priority(admission: Admission, lookup: Lookup) -> None:
    """Hold PriorityClasses to one default.

    Raises:
        StatusError: 403 there is one already.
    """
    resource = admission.scope.kind.resource
    if (resource.group, resource.plural) != ("scheduling.k8s.io", "priorityclasses"):
        return
    if not (admission.new or {}).get("globalDefault"):
        return
    there = await _default_class(admission, lookup)
    if there is not None and (admission.operation == "CREATE" or there["metadata"]["name"] != admission.name):
        name = there["metadata"]["name"]
        raise refusal(
            admission, f"PriorityClass {name} is already marked as default. Only one default can exist"
        )


async def _resolve(admission: Admission, lookup: Lookup, spec: Object) -> None:
    name = spec.get("priorityClassName") or ""
    if name:
        found = await lookup.get(admission.scope.tenant, "scheduling.k8s.io", "priorityclasses", name)
        if found is None:
            raise refusal(admission, f"no PriorityClass with name {name} was found")
    else:
        found = await _default_class(admission, lookup)
        if found is not None:
            spec["priorityClassName"] = found["metadata"]["name"]
    value = (found or {}).get("value", 0)
    policy = (found or {}).get("preemptionPolicy", "PreemptLowerPriority")
    computed = "from the given PriorityClass name"
    given = spec.get("priority")
    if given is not None and given != value:
        raise refusal(
            admission,
            f"the integer value of priority ({given}) must not be provided in pod spec; "
            f"priority admission controller computed {value} {computed}",
        )
    given = spec.get("preemptionPolicy")
    if given is not None and given != policy:
        raise refusal(
            admission,
            f"the string value of PreemptionPolicy ({given}) must not be provided in pod spec; "
            f"priority admission controller computed {policy} {computed}",
        )
    spec["priority"], spec["preemptionPolicy"] = value, policy


async def _default_class(admission: Admission, lookup: Lookup) -> Object | None:
    """Return the default class; of several the one of the least value."""
    classes = await lookup.all(admission.scope.tenant, "scheduling.k8s.io", "priorityclasses")
    return min((each for each in classes if each.get("globalDefault")), key=_value, default=None)


def _value(found: Object) -> int:
    return int(found.get("value", 0))


async def default_tolerations(admission: Admission, lookup: Lookup) -> None:
    """Let a Pod stay five minutes on a node that is lost, unless it says otherwise."""
    del lookup
    resource = admission.scope.kind.resource
    if (resource.group, resource.plural) != ("", "pods") or admission.scope.subresource:
        return
    if admission.operation not in ("CREATE", "UPDATE"):
        return
    spec = spec_of(admission)
    given = spec.get("tolerations") or []
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(_tolerates(each, key) for each in given):
            given = [
                *given,
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": TOLERATION_SECONDS,
                },
            ]
    spec["tolerations"] = given


def _tolerates(toleration: Mapping[str, Any], key: str) -> bool:
    return toleration.get("key", "") in ("", key) and toleration.get("effect", "") in ("", "NoExecute")


async def runtime_class(admission: Admission, lookup: Lookup) -> None:
    """Give a Pod its RuntimeClass's overhead, node selector and tolerations.

    Raises:
        StatusError: 403 there is no such class, or the Pod contradicts it.
    """
    if not creates(admission, "pods"):
        return
    spec = spec_of(admission)
    name = spec.get("runtimeClassName")
    found: Object | None = None
    if name is not None:
        found = await lookup.get(admission.scope.tenant, "node.k8s.io", "runtimeclasses", name)
        if found is None:
            raise refusal(admission, f'pod rejected: RuntimeClass "{name}" not found')
    overhead = ((found or {}).get("overhead") or {}).get("podFixed") or {}
    if spec.get("overhead") and _amounts(spec["overhead"]) != _amounts(overhead):
        raise refusal(
            admission,
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
            if overhead
            else "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        )
    if overhead:
        spec["overhead"] = overhead
    _schedule(admission, spec, (found or {}).get("scheduling") or {})


def _amounts(given: Mapping[str, Any]) -> dict[str, int]:
    return {name: milli(str(each)) for name, each in given.items()}


def _schedule(admission: Admission, spec: Object, scheduling: Object) -> None:
    selector = dict(spec.get("nodeSelector") or {})
    for key, value in (scheduling.get("nodeSelector") or {}).items():
        if selector.get(key, value) != value:
            raise refusal(
                admission,
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {selector[key]}",
            )
        selector[key] = value
    if selector:
        spec["nodeSelector"] = selector
    given = spec.get("tolerations") or []
    more = [each for each in scheduling.get("tolerations") or () if each not in given]
    if more:
        spec["tolerations"] = [*given, *more]


def _annotations(obj: Object | None) -> Mapping[str, str]:
    return ((obj or {}).get("metadata") or {}).get("annotations") or {}
