"""Defaults and validation of admission webhooks and of the rules that say which requests they get. Pure.

Source: Kubernetes' `pkg/apis/admissionregistration`.
"""

from urllib.parse import urlsplit

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.common.defaults import fill
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import (
    Findings,
    Object,
    indexed,
    items,
    number,
    one_of,
    part,
    say,
    selector,
    text,
)

GROUP = "admissionregistration.k8s.io"
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")
_REVIEWS = ("v1", "v1beta1")


def default_rules(found: Object, key: str) -> None:
    """Set the default scope of rules."""
    for rule in items(found, key):
        fill(rule, {"scope": "*"})


def default_match(found: Object) -> None:
    """Set the default match policy and selectors."""
    fill(found, {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}})


def default_configuration(found: Object, *, mutating: bool) -> None:
    """Set the defaults of a webhook configuration."""
    for hook in items(found, "webhooks"):
        fill(hook, {"failurePolicy": "Fail", "timeoutSeconds": 10})
        default_match(hook)
        if mutating:
            fill(hook, {"reinvocationPolicy": "Never"})
        default_rules(hook, "rules")
        service = part(hook, "clientConfig").get("service")
        if isinstance(service, dict):
            fill(service, {"port": 443})


def rule(path: str, found: Object) -> Findings:
    """Check one rule that selects requests by operation, group, version, resource and scope."""
    asked = items(found, "operations")
    if not asked:
        yield errors.required(f"{path}.operations")
    if len(asked) > 1 and "*" in asked:
        yield errors.wrong(
            f"{path}.operations", asked, "if '*' is present, must not specify other operations"
        )
    for index, each in enumerate(asked):
        yield from one_of(f"{path}.operations[{index}]", each, _OPERATIONS)
    for key, message in (("apiGroups", "API groups"), ("apiVersions", "API versions")):
        values = items(found, key)
        if not values:
            yield errors.required(f"{path}.{key}")
        if len(values) > 1 and "*" in values:
            yield errors.wrong(
                f"{path}.{key}", values, f"if '*' is present, must not specify other {message}"
            )
    for index, each in enumerate(items(found, "apiVersions")):
        if not each:
            yield errors.required(f"{path}.apiVersions[{index}]")
    yield from _resources(f"{path}.resources", items(found, "resources"))
    if "scope" in found:
        yield from one_of(f"{path}.scope", found["scope"], _SCOPES)


def _resources(path: str, found: list[str]) -> Findings:
    if not found:
        yield errors.required(path)
    whole: set[str] = set()
    everywhere: set[str] = set()
    plain = False
    for index, each in enumerate(found):
        here = f"{path}[{index}]"
        if not each:
            yield errors.required(here)
            continue
        resource, slash, sub = each.partition("/")
        if not slash:
            plain = each != "*"
            continue
        if resource in whole:
            yield errors.wrong(here, each, f"if '{resource}/*' is present, must not specify {each}")
        if sub in everywhere:
            yield errors.wrong(here, each, f"if '*/{sub}' is present, must not specify {each}")
        if sub == "*":
            whole.add(resource)
        if resource == "*":
            everywhere.add(sub)
    if len(found) > 1 and "*/*" in found:
        yield errors.wrong(path, found, "if '*/*' is present, must not specify other resources")
    if "*" in found and plain:
        message = "if '*' is present, must not specify other resources without subresources"
        yield errors.wrong(path, found, message)


def _full_name(path: str, name: str) -> Findings:
    if not name:
        yield errors.required(path)
        return
    wrong = names.dns_subdomain(name)
    if wrong:
        yield errors.wrong(path, name, ",".join(wrong))
    elif name.count(".") < 2:
        yield errors.wrong(path, name, "should be a domain with at least three segments separated by dots")


def _hook(path: str, hook: Object, *, mutating: bool) -> Findings:
    yield from _full_name(f"{path}.name", text(hook, "name"))
    for each, here in indexed(hook, "rules", f"{path}.rules"):
        yield from rule(here, each)
    yield from one_of(f"{path}.failurePolicy", text(hook, "failurePolicy"), ("Fail", "Ignore"))
    yield from one_of(f"{path}.matchPolicy", text(hook, "matchPolicy"), ("Equivalent", "Exact"))
    effects = hook.get("sideEffects")
    if effects is None:
        yield errors.required(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun")
    else:
        yield from one_of(f"{path}.sideEffects", effects, ("None", "NoneOnDryRun"))
    seconds = hook.get("timeoutSeconds")
    if seconds is not None and not 1 <= seconds <= 30:
        message = "the timeout value must be between 1 and 30 seconds"
        yield errors.wrong(f"{path}.timeoutSeconds", seconds, message)
    yield from selector(f"{path}.namespaceSelector", hook.get("namespaceSelector"))
    yield from selector(f"{path}.objectSelector", hook.get("objectSelector"))
    if mutating:
        yield from one_of(
            f"{path}.reinvocationPolicy", text(hook, "reinvocationPolicy"), ("IfNeeded", "Never")
        )
    yield from client_config(f"{path}.clientConfig", part(hook, "clientConfig"))
    yield from match_conditions(f"{path}.matchConditions", items(hook, "matchConditions"))


def client_config(path: str, found: Object) -> Findings:
    """Check a webhook's client configuration: exactly one URL or Service."""
    url, service = found.get("url"), found.get("service")
    if (url is None) == (service is None):
        yield errors.required(path, "exactly one of url or service is required")
    elif url is not None:
        yield from _url(f"{path}.url", url)
    elif isinstance(service, dict):
        yield from _service(f"{path}.service", service)


def _url(path: str, url: str) -> Findings:
    form = "; desired format: https://host[/path]"
    try:
        found = urlsplit(url)
    except ValueError as wrong:
        yield errors.required(path, f"url must be a valid URL: {wrong}{form}")
        return
    if found.scheme != "https":
        yield errors.wrong(path, found.scheme, f"'https' is the only allowed URL scheme{form}")
    if not found.netloc:
        yield errors.wrong(path, found.netloc, f"host must be specified{form}")
    if "@" in found.netloc:
        user = found.netloc.rpartition("@")[0]
        yield errors.wrong(path, user, "user information is not permitted in the URL")
    if found.fragment:
        yield errors.wrong(path, found.fragment, "fragments are not permitted in the URL")
    if found.query:
        yield errors.wrong(path, found.query, "query parameters are not permitted in the URL")


def _service(path: str, found: Object) -> Findings:
    for key, other in (("namespace", "name"), ("name", "namespace")):
        if not text(found, key):
            yield errors.required(f"{path}.{other}")
    port = number(found, "port")
    if not 1 <= port <= 65535:
        message = "port is not valid: must be between 1 and 65535, inclusive"
        yield errors.wrong(f"{path}.port", port, message)
    place = found.get("path")
    if place in (None, "", "/"):
        return
    here = f"{path}.path"
    if not place.startswith("/"):
        yield errors.wrong(here, place, "must start with a '/'")
    steps = place[1:].removesuffix("/").split("/")
    for index, step in enumerate(steps):
        if not step:
            yield errors.wrong(here, place, f"segment[{index}] may not be empty")
            continue
        for wrong in names.dns_subdomain(step):
            yield errors.wrong(here, place, f"segment[{index}]: {wrong}")


def match_conditions(path: str, found: list[Object]) -> Findings:
    """Check the names of match conditions. The CEL engine checks whether their expressions compile."""
    if len(found) > 64:
        yield errors.too_many(path, len(found), 64)
    seen: set[str] = set()
    for index, each in enumerate(found):
        here, name = f"{path}[{index}]", text(each, "name")
        if not text(each, "expression").strip():
            yield errors.required(f"{here}.expression")
        if not name:
            yield errors.required(f"{here}.name")
            continue
        yield from say(f"{here}.name", name, names.qualified_name(name))
        if name in seen:
            yield errors.duplicate(f"{here}.name", name)
        seen.add(name)


def _reviews(path: str, versions: list[str]) -> Findings:
    if not versions:
        yield errors.required(path, "must specify one of v1, v1beta1")
        return
    seen: set[str] = set()
    for index, each in enumerate(versions):
        if each in seen:
            yield errors.wrong(f"{path}[{index}]", each, "duplicate version")
            continue
        seen.add(each)
        yield from say(f"{path}[{index}]", each, names.dns_label_1035(each))
    if not seen & set(_REVIEWS):
        yield errors.wrong(path, versions, "must include at least one of v1, v1beta1")


def validate_configuration(found: Object, *, mutating: bool) -> list[FieldError]:
    """Return the findings on a webhook configuration."""
    wrong: list[FieldError] = []
    seen: set[str] = set()
    for hook, here in indexed(found, "webhooks", "webhooks"):
        wrong.extend(_hook(here, hook, mutating=mutating))
        wrong.extend(_reviews(f"{here}.admissionReviewVersions", items(hook, "admissionReviewVersions")))
        name = text(hook, "name")
        if name and name in seen:
            wrong.append(errors.duplicate(f"{here}.name", name))
        seen.add(name)
    return wrong
