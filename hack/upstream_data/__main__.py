"""`python -m hack.upstream_data`: sends upstream's objects to both servers and reports every unexpected difference."""

import argparse
import json
import re
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from hack.parity import allowed, corpus, sides
from hack.parity.__main__ import compare
from hack.parity.replaying import Servers
from hack.upstream_data import requests, sources

KNOWN = Path(__file__).parent / "known.yaml"
"""Known differences, in the form of hack/parity/allowed.yaml."""


def main() -> int:
    """Run the command; returns 0 if every difference is known, 1 otherwise."""
    parser = argparse.ArgumentParser(prog="python -m hack.upstream_data", description=__doc__)
    parser.add_argument("--only", metavar="REGEX", default="", help="objects whose source matches")
    parser.add_argument("--json", metavar="FILE", type=Path, help="where to store the result")
    options = parser.parse_args()
    scenarios, elsewhere = chosen(options.only)
    allowances = [*allowed.load(), *(known := allowed.load(KNOWN))]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vcsync-upstream-data-")))
        real, twin = stack.enter_context(sides.real(folder / "real"))
        ours = stack.enter_context(sides.embedded(folder / "ours"))
        result = compare(Servers(real, ours, twin), scenarios, allowances, frozenset(), {})
    for name, found in result["different"].items():
        print(name, *(f"    {each}" for each in found), sep="\n")
    if not options.only:
        for each in known:
            if not each.used:
                print(f"known.yaml: no difference matches {each}", file=sys.stderr)
    print(f"{len(scenarios)} objects; of kinds that are not served: {sum(elsewhere.values())}")
    print(f"{sum(result['same'].values())} of {sum(result['total'].values())} answers are equal")
    if options.json:
        options.json.write_text(json.dumps(result, indent=1))
    return 1 if result["different"] else 0


def chosen(pattern: str) -> tuple[list[corpus.Scenario], Counter[str]]:
    """Return the scenarios of the objects whose source matches, and the kinds of objects that have none."""
    found, elsewhere = [], Counter[str]()
    for number, document in enumerate(sources.documents(sources.modules())):
        if not re.search(pattern, document.source):
            continue
        resource = requests.kind_of(document)
        if resource is None:
            elsewhere[f"{document.content.get('apiVersion')}/{document.content['kind']}"] += 1
            continue
        found.append(corpus.scenario(requests.GROUP, requests.scenario(number, document, resource)))
    return found, elsewhere


if __name__ == "__main__":
    sys.exit(main())
