"""Computes the status of access reviews, TokenReviews and SelfSubjectReviews. Nothing is stored.

Behaviour: kubernetes `pkg/registry/{authorization,authentication}`.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from vcsync.apimachinery.errors import FieldError, bad_request, invalid
from vcsync.apimachinery.strategy import Object, User
from vcsync.apiserver.authentication.authenticator import Authenticator
from vcsync.apiserver.authentication.tokens import TokenError
from vcsync.apiserver.authorization import guests
from vcsync.apiserver.authorization.authorizer import Authorizer
from vcsync.apiserver.authorization.limits import weight_of
from vcsync.apiserver.authorization.nodes import node_of
from vcsync.apiserver.authorization.policy import Policy
from vcsync.apiserver.authorization.rbac import Rule
from vcsync.apiserver.request.caller import SYSTEM, Attributes, Caller
from vcsync.apiserver.reviews.rules import review_findings
from vcsync.apiserver.reviews.selectors import selected_fields, selector_problems
from vcsync.objects.budget import Budget
from vcsync.objects.times import unix_time_text
from vcsync.process.loop_turns import rest

AUTHORIZATION = "authorization.k8s.io"
AUTHENTICATION = "authentication.k8s.io"

_NEVER = "guests never pass on permissions: SelfSubjectAccessReview tells which of these rules apply"
_UNRESOLVED = "node authorizer does not support user rule resolution"


class Reviews:
    """Computes the status of reviews.

    Args:
        authorizer: Decides access reviews.
        authenticator: Authenticates the tokens of TokenReviews.
        clock: Returns Unix seconds.
    """

    def __init__(
        self, authorizer: Authorizer, authenticator: Authenticator, clock: Callable[[], float]
    ) -> None:
        self._authorizer = authorizer
        self._authenticator = authenticator
        self._clock = clock
        self._answers: Mapping[str, Callable[[Caller, str, str, Object], Awaitable[Object]]] = {
            "subjectaccessreviews": self._subject_access,
            "localsubjectaccessreviews": self._subject_access,
            "selfsubjectaccessreviews": self._self_access,
            "selfsubjectrulesreviews": self._self_rules,
            "selfsubjectreviews": self._self_subject,
            "tokenreviews": self._token,
        }

    @property
    def plurals(self) -> frozenset[str]:
        """Plurals of the resources that are reviews."""
        return frozenset(self._answers)

    async def create(self, caller: Caller, tenant: str, plural: str, namespace: str, body: Object) -> Object:
        """Return a review with its status.

        Args:
            caller: Caller of the request.
            tenant: Tenant that the review is about.
            plural: Plural of the review's resource.
            namespace: Namespace in the URL, or an empty text.
            body: The review in the request.

        Raises:
            StatusError: 400 or 422, the review is invalid.
            StoreError: The store cannot be read.
        """
        review = dict(body)
        review["metadata"] = dict(review.get("metadata") or {})
        if not namespace:
            # As for every creation of a cluster-scoped object.
            review["metadata"].pop("namespace", None)
        return await self._answers[plural](caller, tenant, namespace, review)

    async def _subject_access(self, _caller: Caller, tenant: str, namespace: str, review: Object) -> Object:
        local = namespace if review.get("kind") == "LocalSubjectAccessReview" or namespace else None
        if local is not None:
            named = review["metadata"].get("namespace")
            if named and named != namespace:
                raise bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request"
                )
            review["metadata"]["namespace"] = namespace
        spec = review.get("spec") or {}
        _require(review_findings(review, whose=True, namespace=local))
        extra = {key: tuple(values or ()) for key, values in (spec.get("extra") or {}).items()}
        user = User(spec.get("user") or "", spec.get("uid") or "", tuple(spec.get("groups") or ()), extra)
        return await self._decided(Caller(user, tenant, system=tenant == SYSTEM), review)

    async def _self_access(self, caller: Caller, tenant: str, _namespace: str, review: Object) -> Object:
        _require(review_findings(review, whose=False))
        return await self._decided(_within(caller, tenant), review)

    async def _decided(self, caller: Caller, review: Object) -> Object:
        spec = review["spec"]
        decision = await self._authorizer.decide(caller, _asked(spec))
        review["status"] = {"allowed": decision.allowed}
        if decision.reason:
            review["status"]["reason"] = decision.reason
        ignored = selector_problems(spec.get("resourceAttributes") or {})
        if ignored:
            review["status"]["evaluationError"] = ignored
        return review

    async def _self_rules(self, caller: Caller, tenant: str, _namespace: str, review: Object) -> Object:
        namespace = (review.get("spec") or {}).get("namespace") or ""
        if not namespace:
            raise bad_request("no namespace on request")
        subject = _within(caller, tenant)
        policy = await self._authorizer.policy(subject.tenant)
        if subject.home:
            return {
                **_head(review),
                "metadata": {},
                "spec": {},
                "status": await _guest_rules(policy, subject, namespace),
            }
        held = await policy.held_in_turns(subject.user, namespace)
        status: Object = {**await _listed(held.rules()), "incomplete": held.incomplete}
        problems = held.problems
        if node_of(subject.user) is not None:
            status["incomplete"] = True
            problems = ", ".join(filter(None, (_UNRESOLVED, problems)))
        if problems:
            status["evaluationError"] = problems
        return {**_head(review), "metadata": {}, "spec": {}, "status": status}

    async def _self_subject(self, caller: Caller, _tenant: str, _namespace: str, review: Object) -> Object:
        at = unix_time_text(int(self._clock()))
        status = {"userInfo": _user_info(caller.user)}
        return {**_head(review), "metadata": {"creationTimestamp": at}, "status": status}

    async def _token(self, _caller: Caller, tenant: str, _namespace: str, review: Object) -> Object:
        spec = review.get("spec") or {}
        token = spec.get("token") or ""
        if not token:
            raise bad_request("token is required for TokenReview in authentication")
        try:
            found = await self._authenticator.by_token(
                token, of=tenant, audiences=tuple(spec.get("audiences") or ())
            )
        except TokenError as error:
            why = str(error)
            message = why if why == "invalid bearer token" else f"[invalid bearer token, {why}]"
            review["status"] = {"user": {}, "error": message}
            return review
        review["status"] = {
            "authenticated": True,
            "user": _user_info(found.user),
            "audiences": list(found.audiences),
        }
        return review


def _require(findings: list[FieldError]) -> None:
    """Refuse a review with findings. The refusal names no kind, as in kube-apiserver."""
    if findings:
        raise invalid("", AUTHORIZATION, "", findings)


def _within(caller: Caller, tenant: str) -> Caller:
    """Return the caller as a caller of a tenant. A system caller keeps its own rights."""
    return caller if caller.system or caller.tenant == tenant else Caller(caller.user, tenant)


def _head(review: Object) -> Object:
    return {key: review[key] for key in ("kind", "apiVersion") if key in review}


def _asked(spec: Object) -> Attributes:
    resource = spec.get("resourceAttributes")
    if resource is None:
        other = spec["nonResourceAttributes"]
        return Attributes(other.get("verb") or "", other.get("path") or "", resource_request=False)
    return Attributes(
        resource.get("verb") or "",
        group=resource.get("group") or "",
        version=resource.get("version") or "*",
        resource=resource.get("resource") or "",
        subresource=resource.get("subresource") or "",
        namespace=resource.get("namespace") or "",
        name=resource.get("name") or "",
        selected=selected_fields(resource.get("fieldSelector")),
    )


async def _guest_rules(policy: Policy, caller: Caller, namespace: str) -> Object:
    """Return the status of a guest's SelfSubjectRulesReview. The list has rules that never apply to guests, too."""
    found = await _listed(guests.rules(policy, caller.grants, namespace))
    return {**found, "incomplete": True, "evaluationError": _NEVER}


async def _listed(rules: Iterable[Rule]) -> Object:
    """Return rules as a SelfSubjectRulesReview lists them. Takes turns with other tasks."""
    resource_rules: list[Object] = []
    other_rules: list[Object] = []
    budget = Budget("the list of rules")
    for rule in rules:
        budget.spend(weight_of((rule,)).values)
        await rest(budget)
        if rule.resources:
            resource_rules.append(_resource_rule(rule))
        if rule.urls:
            other_rules.append({"verbs": list(rule.verbs), "nonResourceURLs": list(rule.urls)})
    return {"resourceRules": resource_rules, "nonResourceRules": other_rules}


def _resource_rule(rule: Any) -> Object:
    found = {"verbs": list(rule.verbs), "apiGroups": list(rule.groups), "resources": list(rule.resources)}
    return found | {"resourceNames": list(rule.names)} if rule.names else found


def _user_info(user: User) -> Object:
    info: Object = {"username": user.name}
    if user.uid:
        info["uid"] = user.uid
    if user.groups:
        info["groups"] = list(user.groups)
    if user.extra:
        info["extra"] = {key: list(values) for key, values in user.extra.items()}
    return info
