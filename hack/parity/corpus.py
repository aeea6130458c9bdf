"""The corpus: scenarios of requests, read from the YAML files in `corpus/`.

    scenario: configmaps
    steps:
    - POST: /api/v1/namespaces/{ns}/configmaps
      body: {apiVersion: v1, kind: ConfigMap, metadata: {name: one}}
      keep: {version: metadata.resourceVersion}
    - GET: /api/v1/namespaces/{ns}/configmaps?resourceVersion={version}&watch=1
      events: 1

Every scenario has its own namespace `{ns}`, which exists before its first step. `{...}` in paths, headers and bodies is
replaced by a value that an earlier step kept. `{hooks}` is the URL of a webhook server (`hack.webhooks`) and
`{hooks_ca}` its `caBundle`.

A step `WATCH: path` watches the path, which may have selectors, until the last step; then the events of both servers are
compared. Collections that a step writes to are watched without such a step. The last write must leave an object that
matches the selectors, so that its event shows that there are no further ones.

`kinds.py` and `fields.py` generate further scenarios, one for each built-in kind, and `bodies.py` those of bodies that are
not an object of their path. Reports name a step by its `label`
if it has one, else by its position, verb and path.
"""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from hack.parity import bodies, fields, kinds

FOLDER = Path(__file__).parent / "corpus"
VERBS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "WATCH")
WATCH = "WATCH"
"""Verb of a step that opens a watch, whose events are compared after the last step."""
EVENTS = "EVENTS"
"""Verb of the step under whose name the events of a collection are compared (`watching.py`)."""
FIELDS = "fields"
"""The group of the scenarios that `fields.py` creates."""
OPTIONS = {
    "body",
    "raw",
    "content",
    "headers",
    "keep",
    "events",
    "sort",
    "unordered",
    "as",
    "eventually",
    "may_fail",
    "label",
}


class CorpusError(Exception):
    """A corpus file is invalid; the text says where and why."""


@dataclass(frozen=True)
class Step:
    """One request.

    Attributes:
        name: scenario and label, or scenario, position, verb and path; for reports.
        body: sent as JSON.
        raw: the body as text, sent as it is, instead of `body`.
        content: media type of the body.
        keep: variable -> path in the answer (`metadata.uid`).
        events: number of events to read from a watch.
        sort: whether to compare the items of the answer's list regardless of their order.
        unordered: the reason why the real server lists the causes of a Status in a random order; empty: it does not.
        user: name of the credentials to use (`admin` or `nobody`).
        eventually: path -> value; the request is repeated until the answer has them, because a controller writes them.
            `code` also stands for the status code of an answer that is not JSON.
        may_fail: its answer is not compared, because the step removes what an earlier replay may have left.
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
    sort: bool = False
    unordered: str = ""
    user: str = "admin"
    eventually: dict[str, Any] = field(default_factory=dict)
    may_fail: bool = False


@dataclass(frozen=True)
class Scenario:
    """Steps in order; `group` is the name of its file without suffix."""

    group: str
    name: str
    steps: tuple[Step, ...]


def load(folder: Path = FOLDER) -> list[Scenario]:
    """Read every scenario.

    Raises:
        CorpusError: a file is malformed, or two scenarios have the same name.
    """
    found: list[Scenario] = []
    for path in sorted(folder.glob("*.yaml")):
        documents = yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader)
        found += [scenario(path.stem, each) for each in documents if each is not None]
    found += [scenario("kinds-all", each) for each in kinds.scenarios()]
    found += [scenario("bodies", each) for each in bodies.scenarios()]
    found += [scenario(FIELDS, each) for each in fields.scenarios()]
    counted = Counter(each.name for each in found)
    twice = {name for name, count in counted.items() if count > 1}
    if twice:
        raise CorpusError(f"scenarios with the same name: {', '.join(sorted(twice))}")
    return found


def scenario(group: str, document: Any) -> Scenario:
    """Return the scenario that a document describes.

    Raises:
        CorpusError: the document is malformed.
    """
    if not isinstance(document, dict) or set(document) != {"scenario", "steps"}:
        raise CorpusError(f"{group}: a document has `scenario` and `steps`, not {document!r:.80}")
    name = str(document["scenario"])
    steps = tuple(_step(f"{group}/{name}", at, each) for at, each in enumerate(document["steps"], 1))
    return Scenario(group, name, steps)


def _step(where: str, at: int, entry: dict[str, Any]) -> Step:
    verbs = [verb for verb in VERBS if verb in entry]
    unknown = set(entry) - set(VERBS) - OPTIONS
    if len(verbs) != 1 or unknown:
        raise CorpusError(
            f"{where} step {at}: one verb of {', '.join(VERBS)}; unknown: {', '.join(unknown) or 'none'}"
        )
    verb = verbs[0]
    label = f" {entry['label']}" if "label" in entry else f"#{at} {verb} {entry[verb]}"
    default = "application/merge-patch+json" if verb == "PATCH" else "application/json"
    return Step(
        name=where + label,
        verb=verb,
        path=str(entry[verb]),
        body=entry.get("body"),
        raw=entry.get("raw"),
        content=entry.get("content", default),
        headers=dict(entry.get("headers", {})),
        keep=dict(entry.get("keep", {})),
        events=int(entry.get("events", 0)),
        sort=bool(entry.get("sort", False)),
        unordered=str(entry.get("unordered", "")),
        user=str(entry.get("as", "admin")),
        eventually=dict(entry.get("eventually", {})),
        may_fail=bool(entry.get("may_fail", False)),
    )
