"""Every body of a request is decoded where it does not hold up the requests of others, or refused because of its length."""

import ast
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import vcsync.apiserver
from vcsync.apimachinery.wire import decode, gojson, goyaml
from vcsync.apiserver.handlers.subresources import MAX_BODY

ROOM = Path(vcsync.apiserver.__file__).parent
DECODERS = {"read_object", "read_as", "read_options", "read_patch", "read_applied"}
"""Functions that decode a body."""
FORMATS = {"gojson.loads", "gojson.loads_written", "goyaml.loads", "protobuf.decode"}
PATCHES = {"handlers/patch.py", "handlers/subresources.py", "registry/bound_status.py"}
"""Modules whose calls of `patched` decode a body."""
ELSEWHERE = {
    "admission/webhooks/review.py": "the answer of a webhook, whose size the call limits",
    "audit/events.py": "on the thread that writes the audit log",
    "audit/request_log.py": "an answer of this server, which is a short Status",
    "registry/bodies.py": "the functions above",
    "registry/patch.py": "a function above, and the patch, which is decoded by its caller",
    "registry/scale_writes.py": "decoded by its caller",
    "request/core_tenants.py": "only the operator's callers have Tenants in the core group",
    "request/paging.py": "a continue token, whose size the query limits",
}


def calls(tree: ast.AST, *, aside: bool = False) -> Iterator[tuple[str, bool]]:
    """Yield the names of mentioned functions, and whether they are arguments of `run_decoding`, also by a variable."""
    names = {
        word.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and _name(node.func) == "run_decoding"
        for part in node.args
        for word in ast.walk(part)
        if isinstance(word, ast.Name)
    }
    for node in ast.iter_child_nodes(tree):
        inner = aside
        if isinstance(node, ast.Call) and _name(node.func) == "run_decoding":
            inner = True
        if isinstance(node, ast.Assign) and any(
            isinstance(each, ast.Name) and each.id in names for each in node.targets
        ):
            inner = isinstance(node.value, ast.Call) and _name(node.value.func) == "partial"
        if isinstance(node, ast.Name | ast.Attribute):
            yield _name(node), aside
        if not isinstance(node, ast.ImportFrom):
            yield from calls(node, aside=inner)


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        whole = f"{node.value.id}.{node.attr}"
        return whole if whole in FORMATS else node.attr
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def test_each_place_that_decodes_a_body_gives_it_to_the_function_that_chooses_the_thread() -> None:
    found, forgotten = set(), []
    for path in sorted(ROOM.rglob("*.py")):
        module = str(path.relative_to(ROOM))
        for function in ast.walk(ast.parse(path.read_text())):
            if not isinstance(function, ast.AsyncFunctionDef | ast.FunctionDef):
                continue
            for name, aside in calls(function):
                if name in DECODERS | FORMATS or (name == "patched" and module in PATCHES):
                    found.add(module)
                    if not aside and module not in ELSEWHERE:
                        forgotten.append(f"{module}: {function.name} calls {name} without run_decoding")
    assert not forgotten
    assert found >= PATCHES | set(ELSEWHERE) | {
        f"handlers/{verb}.py" for verb in ("create", "update", "delete", "deletecollection")
    }


REVIEW = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
SPEC = {"resourceAttributes": {"verb": "get"}}
DEFAULT = "/api/v1/namespaces/default"
DEPLOYMENT = "/apis/apps/v1/namespaces/default/deployments/d"
SHORT = [
    ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {**REVIEW, "spec": SPEC}),
    ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {}),
    ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "x"}}),
    ("POST", f"{DEFAULT}/bindings", {"metadata": {"name": "p"}, "target": {"name": "n"}}),
    ("POST", f"{DEFAULT}/pods/p/binding", {"metadata": {"name": "p"}, "target": {"name": "n"}}),
    ("POST", f"{DEFAULT}/pods/p/eviction", {"metadata": {"name": "p"}}),
    ("POST", f"{DEFAULT}/serviceaccounts/s/token", {}),
    ("PUT", f"{DEPLOYMENT}/scale", {"metadata": {"name": "d"}}),
    ("PATCH", f"{DEPLOYMENT}/scale", {"spec": {"replicas": 1}}),
]
LONG = [
    ("POST", f"{DEFAULT}/configmaps", {"metadata": {"name": "c"}}),
    ("PUT", f"{DEFAULT}/configmaps/c", {"metadata": {"name": "c"}}),
    ("PUT", f"{DEPLOYMENT}/status", {"metadata": {"name": "d"}}),
    ("PATCH", f"{DEFAULT}/configmaps/c", {}),
    ("PATCH", f"{DEPLOYMENT}/status", {}),
    ("DELETE", f"{DEFAULT}/configmaps/c", {}),
    ("DELETE", f"{DEFAULT}/configmaps", {}),
]


@pytest.fixture
def threads(monkeypatch):
    """The threads that decode bodies."""
    used = set()
    for module, name in ((gojson, "loads"), (gojson, "loads_written"), (goyaml, "loads")):
        plain = getattr(module, name)

        def loads(data, *rest, plain=plain):
            if len(data) > 100:
                used.add(threading.current_thread())
            return plain(data, *rest)

        monkeypatch.setattr(module, name, loads)
    return used


def encoded(method, body, form, fields):
    whole = {**body, "extra": {f"k{at}": 1 for at in range(fields)}}
    text = yaml.safe_dump(whole) if form == "yaml" else str(whole).replace("'", '"')
    if form == "flow":
        text = text.replace('"', "")
    patch = "merge-patch+json" if form == "json" else "apply-patch+yaml"
    return text, f"application/{patch if method == 'PATCH' else 'json' if form == 'json' else 'yaml'}"


@pytest.mark.parametrize(("method", "path", "body"), SHORT + LONG)
async def test_a_costly_body_is_decoded_on_a_thread(api, threads, method, path, body):
    apply = "?fieldManager=m" if method == "PATCH" else ""
    for form, fields in (("yaml", 100), ("flow", 100), ("json", 1600)):
        data, content_type = encoded(method, body, form, fields)
        answer = await api(method, path + apply, data.encode(), **{"Content-Type": content_type})
        assert answer.status != 413
        assert threads, answer.body
        assert threading.main_thread() not in threads
        threads.clear()


@pytest.mark.parametrize(("method", "path", "body"), SHORT)
async def test_a_long_body_of_a_small_object_is_refused(api, threads, method, path, body):
    data, content_type = encoded(method, body, "json", 10_000)
    answer = await api(method, path, data.encode(), **{"Content-Type": content_type})
    assert (answer.status, answer.body["reason"]) == (413, "RequestEntityTooLarge")
    assert str(MAX_BODY) in answer.body["message"]
    assert not threads


def test_the_decoders_of_the_wire_formats_are_those_that_the_tests_watch() -> None:
    assert decode.gojson is gojson
    assert decode.goyaml is goyaml
