"""`python -m hack.parity`: replays the corpus on both servers and reports every unexpected difference."""

import argparse
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import yaml

from hack.parity import allowed, corpus, coverage, sides
from hack.parity.replaying import Servers, outcomes
from hack.webhooks import WebhookServer

KNOWN = Path(__file__).parent / "known.yaml"
REFUSED = 400
SUMMARY = 200
_OBJECT = re.compile(r'(?<=[\'"])[A-Z]\w+(\.[\w.]+)? \\?"[^"]*\\?" is invalid: ')
LEAST_SHARE = 0.95
"""Minimum share of the built-in types' fields that the corpus sets."""


def main() -> int:
    """Run the command; returns 0 if there is no difference, 1 otherwise."""
    parser = argparse.ArgumentParser(prog="python -m hack.parity", description=__doc__)
    parser.add_argument("--only", metavar="REGEX", help="scenarios whose group/name matches")
    parser.add_argument(
        "--real", metavar="KUBECONFIG", type=Path, nargs=2, help="two kube-apiservers that run already"
    )
    parser.add_argument(
        "--ours", metavar="KUBECONFIG", type=Path, help="an embedded tenant that runs already"
    )
    parser.add_argument("--json", metavar="FILE", type=Path, help="where to store the result")
    parser.add_argument("--record", action="store_true", help="rewrite known.yaml from the differences")
    options = parser.parse_args()
    wanted = [each for each in corpus.load() if re.search(options.only or "", f"{each.group}/{each.name}")]
    known: frozenset[str] = frozenset() if options.record else load_known()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vcsync-parity-")))
        real, twin = (
            (sides.side("real", options.real[0]), sides.side("twin", options.real[1]))
            if options.real
            else stack.enter_context(sides.real(folder / "real"))
        )
        ours = (
            sides.side("ours", options.ours)
            if options.ours
            else stack.enter_context(sides.embedded(folder / "ours"))
        )
        hooks = stack.enter_context(WebhookServer())
        variables = {"hooks": hooks.url, "hooks_ca": hooks.bundle}
        result = compare(Servers(real, ours, twin), wanted, allowed.load(), known, variables)
    separate_known(result, known)
    passed = report(result, whole=not options.only)
    if options.record:
        record_known(result)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1))
    return 0 if passed else 1


def compare(
    servers: Servers,
    scenarios: list[corpus.Scenario],
    allowances: list[allowed.Allowance],
    known: Container[str],
    variables: Mapping[str, str],
) -> dict[str, Any]:
    """Replay scenarios and collect the differences.

    Args:
        servers: to which the requests are sent.
        scenarios: to replay.
        allowances: deliberate differences.
        known: names of steps that are known to differ.
        variables: initial values of `{...}` in the corpus.
    """
    total: Counter[str] = Counter()
    same: Counter[str] = Counter()
    different: dict[str, list[str]] = {}
    alike: list[str] = []
    written: set[coverage.Field] = set()
    accepted: set[coverage.Field] = set()
    for each in outcomes(servers, scenarios, allowances, known, variables):
        total[each.group] += 1
        if each.found:
            different[each.step.name] = list(each.found)
        else:
            same[each.group] += 1
            alike.append(each.step.name)
        written |= (fields := coverage.fields_set(each.step))
        if each.code < REFUSED:
            accepted |= fields
    return {
        "total": dict(total),
        "same": dict(same),
        "different": different,
        "alike": alike,
        "unused": [str(each) for each in allowances if not each.used],
        "fields": {"all": len(coverage.fields()), "set": len(written), "accepted": len(accepted)},
        "unset": sorted(f"{name}.{key}" for name, key in coverage.fields() - written),
        "refused": sorted(f"{name}.{key}" for name, key in written - accepted),
    }


def load_known() -> frozenset[str]:
    """Return the names of the requests that are known to differ."""
    entries = yaml.load(KNOWN.read_text(), Loader=yaml.CSafeLoader)
    return frozenset(step for each in entries for step in each["steps"])


def separate_known(result: dict[str, Any], known: frozenset[str]) -> None:
    """Move known differences to `known` in the result, and list in `vanished` the known ones that no longer differ."""
    result["known"] = {name: found for name, found in result["different"].items() if name in known}
    result["vanished"] = sorted(known & set(result["alike"]))
    result["different"] = {name: found for name, found in result["different"].items() if name not in known}


def record_known(result: dict[str, Any]) -> None:
    """Rewrite known.yaml: every request that differs, grouped by reason."""
    lacking: dict[str, list[str]] = {}
    for name, found in {**result["different"], **result["known"]}.items():
        lacking.setdefault(summary(found), []).append(name)
    heading = "".join(line for line in KNOWN.read_text().splitlines(keepends=True) if line.startswith("#"))
    entries = [{"lacks": lacks, "steps": sorted(steps)} for lacks, steps in sorted(lacking.items())]
    KNOWN.write_text(heading + yaml.safe_dump(entries, width=100_000, sort_keys=False, allow_unicode=True))


def summary(found: Sequence[str]) -> str:
    """Describe in one line how a request's answers differ: by code and message, or else by the first difference."""
    chosen = [each for each in found if each.startswith(("code: real", "message: "))][:2] or found[:1]
    line = " ".join(
        _OBJECT.sub("", each.replace(", ours absent", "").replace("real absent, ", "")) for each in chosen
    )
    return line if len(line) <= SUMMARY else f"{line[:SUMMARY]}..."


def report(result: dict[str, Any], *, whole: bool) -> bool:
    """Print the differences and the number of equal answers per group; return whether the run passed.

    It passes if every difference is known, every known one still exists, and a whole run covers enough fields.
    """
    for group, count in sorted(result["total"].items()):
        print(f"{group:24} {result['same'].get(group, 0):5} of {count}")
    print(f"{'all':24} {sum(result['same'].values()):5} of {sum(result['total'].values())}")
    if result["known"]:
        print(f"{len(result['known'])} differ as listed in known.yaml")
    for name in result["vanished"]:
        print(f"known.yaml: the answers no longer differ: {name}")
    counts = result["fields"]
    share = counts["set"] / counts["all"]
    print(
        f"fields set: {counts['set']} of {counts['all']} ({share:.1%}), {counts['accepted']} of them in accepted requests"
    )
    for pattern in result["unused"] if whole else ():
        print(f"allowed.yaml: no difference matches {pattern!r}", file=sys.stderr, flush=True)
    for name, found in result["different"].items():
        print(f"different: {name}")
        for each in found:
            print(f"    {each}")
    sys.stdout.flush()
    return not result["different"] and not result["vanished"] and (share >= LEAST_SHARE or not whole)


if __name__ == "__main__":
    sys.exit(main())
