"""Selectors that try to be authorized for one object and to be executed for others."""

from collections.abc import Iterator, Sequence
from urllib.parse import quote

from hack.attacks.case import DEFAULT, Case, Scene, wrong
from hack.attacks.client import Answer

SECRETS = f"{DEFAULT}/secrets"
NAME = "metadata.name"
FIELDS = (
    f"{NAME}=mine", f"{NAME}==mine", f"{NAME}!=mine", f"{NAME}=", f"{NAME}", f"{NAME}=mine,{NAME}=other", f"{NAME}=other,{NAME}=mine",
    f"{NAME}!=other,{NAME}=mine", f"{NAME}=mine\\,{NAME}=other", f"x\\,{NAME}=mine", f"{NAME}=mine\\\\", f"{NAME}=mine\\=", f"{NAME}=mine=",
    f"{NAME}=mine,", f",{NAME}=mine", f",,{NAME}=mine,,", f"{NAME}=mine,x", f"{NAME}=mine,x=y", f" {NAME}=mine", f"{NAME} =mine", f"{NAME}= mine",
    f"{NAME}=mine\0", f"{NAME}=*", f"{NAME}=..", f"{NAME}=mine/x", f"{NAME}=mine%2fx", f"{NAME.upper()}=mine", f"{NAME}===mine", f"{NAME}=!mine", f"{NAME}!==mine",
    f"metadata.namespace=default,{NAME}=mine", f"metadata.namespace!=default,{NAME}=mine", "=", "==", "!=", "\\", ",", "type=Opaque", f"{NAME}=mine,type!=x",
    f"{NAME}=mine," + "metadata.namespace!=" + "x" * 600, "metadata.namespace!=" + "x" * 600 + f",{NAME}=mine", f"{NAME}!=" + "x" * 600,
    f"x\\,{NAME}=mine,metadata.namespace!=" + "x" * 600, f"{NAME}=mine\\,a,metadata.namespace!=" + "x" * 600,
)  # fmt: skip
MORE = (
    "&fieldSelector=metadata.name%3Dother",
    "&labelSelector=a%21%3Db",
    "&fieldselector=metadata.name%3Dother",
    "&limit=1",
    "&resourceVersion=0",
)


def cases() -> Sequence[Case]:
    """Use each of them in a list, a watch, a watch at the deprecated path, and a deletion."""
    return [_selecting(field, more) for field in FIELDS for more in ("", MORE[len(field) % len(MORE)])]


def _selecting(field: str, more: str) -> Case:
    query = f"fieldSelector={quote(field)}{more}"

    def attack(scene: Scene) -> Iterator[str]:
        answered = frozenset({200, 400, 403})
        for path in (f"{SECRETS}?{query}", f"/api/v1/secrets?{query}"):
            answer = scene.lowly.ask("GET", path)
            yield from wrong(answer, answered)
            yield from _seen(answer)
        for path in (
            f"{SECRETS}?watch=1&timeoutSeconds=1&{query}",
            f"/api/v1/watch/namespaces/default/secrets?timeoutSeconds=1&{query}",
        ):
            if "resourceVersion" in path:
                continue
            answer = scene.lowly.ask("GET", path)
            yield from wrong(answer, answered)
            yield from _seen(answer)
        yield from wrong(scene.lowly.ask("DELETE", f"{SECRETS}?dryRun=All&{query}"), answered)
        if scene.attacker.ask("GET", f"{SECRETS}/other").status != 200:
            yield "the other Secret is gone"

    return Case(f"{field[:60]!r} {more}", attack)


def _seen(answer: Answer) -> Iterator[str]:
    if answer.status == 200 and b'"name":"other"' in answer.body:
        yield "the answer contains another Secret"
