"""The permissions of guests: callers of another tenant, whom grants admit. Pure.

A guest has the rules of its granted roles, discovery, and reviews of itself. It has none of the permissions that every
authenticated user has. Some requests are never allowed to guests, because their results would outlive the grant or pass
it on.
"""

from collections.abc import Iterator, Sequence

from vcsync.api import names
from vcsync.apiserver.authorization.limits import EXCEEDED, Account
from vcsync.apiserver.authorization.policy import GROUP as RBAC
from vcsync.apiserver.authorization.policy import Policy
from vcsync.apiserver.authorization.rbac import EVERY, Rule, allows
from vcsync.apiserver.request.caller import Asked, Decision, Granted

READS = frozenset({"get", "list", "watch"})
ALWAYS = (
    Rule(
        verbs=("get",),
        urls=(
            "/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz", "/version",
            "/version/",
        ),
    ),
    Rule(
        verbs=("create",),
        groups=("authorization.k8s.io",),
        resources=("selfsubjectaccessreviews", "selfsubjectrulesreviews"),
    ),
    Rule(verbs=("create",), groups=("authentication.k8s.io",), resources=("selfsubjectreviews",)),
)  # fmt: skip
"""Permissions of every guest: to read discovery and health, and to review itself."""
UNWRITABLE = frozenset({
    RBAC,
    "certificates.k8s.io",
    names.GROUP,
    "admissionregistration.k8s.io",
    "apiregistration.k8s.io",
    "apiextensions.k8s.io",
})  # fmt: skip
"""Groups in which guests only read: permissions, certificates and grants, and what changes later requests of the tenant."""
DELEGATING = ("approve", "attest", "bind", "escalate", "impersonate", "sign")
"""Verbs, and beginnings of verbs, that guests never have."""
REFUSED = "guests never get this permission, whatever their roles contain"


def decide(policy: Policy, grants: Sequence[Granted], asked: Asked) -> Decision:
    """Decide a request of a guest.

    Args:
        policy: Policy of the tenant that the request is about.
        grants: Grants of the guest.
        asked: The request.
    """
    if any(allows(rule, asked) for rule in ALWAYS):
        return Decision(True, "TenantGrant: allowed to every guest")
    if _is_delegating(asked):
        return Decision(False, f"TenantGrant: {REFUSED}")
    account = Account()
    for grant, kind, role, found in _roles(policy, grants, asked.namespace, account):
        if any(allows(rule, asked) for rule in found):
            reason = f'TenantGrant: allowed by TenantGrant "{grant.name}" of {kind} "{role}"'
            return Decision(True, reason)
    return Decision(False, f"TenantGrant: {EXCEEDED}" if account.exceeded else "")


def rules(policy: Policy, grants: Sequence[Granted], namespace: str) -> list[Rule]:
    """Return the rules of a guest in a namespace, including those that `decide` never applies."""
    granted = (found for _, _, _, found in _roles(policy, grants, namespace, Account()))
    return [*ALWAYS, *(rule for found in granted for rule in found)]


def _roles(
    policy: Policy, grants: Sequence[Granted], namespace: str, account: Account
) -> Iterator[tuple[Granted, str, str, Sequence[Rule]]]:
    """Yield the roles that hold in a namespace, each once: the first grant, kind, name and rules. Empty: at the cluster scope."""
    for grant in grants:
        if grant.cluster_wide or namespace in grant.namespaces:
            for kind, role in grant.roles:
                found = policy.rules_of(kind, role, namespace)
                where = "" if kind == "ClusterRole" else namespace
                if account.admit((kind, where, role), policy.weight_of(kind, role, namespace)):
                    yield grant, kind, role, found or ()


def _is_delegating(asked: Asked) -> bool:
    """Tell whether a request could give permissions to others, or keep them beyond the grant."""
    if asked.verb.startswith(DELEGATING):
        return True
    if not asked.resource_request or asked.verb in READS:
        return False
    if asked.verb == EVERY or EVERY in (asked.group, asked.resource):
        return True
    return asked.group in UNWRITABLE or (asked.resource, asked.subresource) == ("serviceaccounts", "token")
