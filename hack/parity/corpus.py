"""The corpus: scenarios of requests, read from the YAML files in `corpus/`.

    scenario: configmaps
    steps:
    - POST: /api/v1/namespaces/{ns}/configmaps
      body: {apiVersion: v1, kind: ConfigMap, metadata: {name: one}}
      keep: {version: metadata.resourceVersion}
    - GET: /api/v1/namespaces/{ns}/configmaps?resourceVersion={version}&watch=1
      events: 1

Every scenario has a namespace `{ns}` of its own, made before its first step. `{...}` in paths, headers and bodies
stands for what earlier steps kept; `{hooks}` is the URL of a webhook server (`hack.webhooks`) and `{hooks_ca}` its
`caBundle`.

Further scenarios are made by `kinds.py`, one for each built-in kind.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from hack.parity import kinds

FOLDER = Path(__file__).parent / "corpus"
VERBS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
OPTIONS = {
    "body",
    "raw",
    "content",
    "headers",
    "keep",
    "events",
    "mask",
    "sort",
    "unordered",
    "as",
    "eventually",
    "may_fail",
}


class CorpusError(Exception):
    """A corpus file is not one; the text says where and why."""


@dataclass(frozen=True)
class Step:
    """One request.

    Attributes:
        name: scenario, position, verb and path, for reports.
        body: sent as JSON; or `raw`, sent as it is.
        content: media type of the body.
        keep: variable -> path in the answer (`metadata.uid`).
        events: of a watch, how many to read.
        mask: paths in the answer whose values differ by nature.
        sort: compare the items of the answer's list regardless of their order.
        unordered: why the findings of a Status have another order each time that the real server is asked.
        user: name of the credentials to use (`admin` or `nobody`).
        eventually: path -> value that must be reached before the answer counts (what controllers write).
        may_fail: its answer is not compared: it takes away what an earlier replay may have left.
    """

    name: str
    verb: str
    path: str
    body: Any = None
    raw: str | None = None
    content: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    keep: dict[str, str] = field(default_factory=dict)
    events: int = 0
    mask: tuple[str, ...] = ()
    sort: bool = False
    unordered: str = ""
    user: str = "admin"
    eventually: dict[str, Any] = field(default_factory=dict)
    may_fail: bool = False


@dataclass(frozen=True)
class Scenario:
    """Steps in order; `group` is the file's name."""

    group: str
    name: str
    steps: tuple[Step, ...]


def load(folder: Path = FOLDER) -> list[Scenario]:
    """Read every scenario.

    Raises:
        CorpusError: a file is malformed, or a name stands twice.
    """
    found: list[Scenario] = []
    for path in sorted(folder.glob("*.yaml")):
        documents = yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader)
        found += [_scenario(path.stem, each) for each in documents if each is not None]
    found += [_scenario("kinds-all", each) for each in kinds.scenarios()]
    names = [each.name for each in found]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise CorpusError(f"scenarios of one name: {', '.join(sorted(twice))}")
    return found


def _scenario(group: str, document: Any) -> Scenario:
    if not isinstance(document, dict) or set(document) != {"scenario", "steps"}:
        raise CorpusError(f"{group}: a document has `scenario` and `steps`, not {document!r:.80}")
    name = str(document["scenario"])
    steps = tuple(_step(f"{group}/{name}", at, each) for at, each in enumerate(document["steps"], 1))
    return Scenario(group, name, steps)


def _step(where: str, at: int, given: dict[str, Any]) -> Step:
    verbs = [verb for verb in VERBS if verb in given]
    unknown = set(given) - set(VERBS) - OPTIONS
    if len(verbs) != 1 or unknown:
        raise CorpusError(
            f"{where} step {at}: one verb of {', '.join(VERBS)}; unknown: {', '.join(unknown) or 'none'}"
        )
    verb = verbs[0]
    default = "application/merge-patch+json" if verb == "PATCH" else "application/json"
    return Step(
        name=f"{where}#{at} {verb} {given[verb]}",
        verb=verb,
        path=str(given[verb]),
        body=given.get("body"),
        raw=given.get("raw"),
        content=given.get("content", default),
        headers=dict(given.get("headers", {})),
        keep=dict(given.get("keep", {})),
        events=int(given.get("events", 0)),
        mask=tuple(given.get("mask", ())),
        sort=bool(given.get("sort", False)),
        unordered=str(given.get("unordered", "")),
        user=str(given.get("as", "admin")),
        eventually=dict(given.get("eventually", {})),
        may_fail=bool(given.get("may_fail", False)),
    )
