"""`python -m hack.parity`: replay the corpus against both servers and tell every difference that is neither allowed nor known."""

import argparse
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import yaml

from hack.parity import allowed, ask, corpus, sides
from hack.parity.compare import differences
from hack.webhooks import WebhookServer

KNOWN = Path(__file__).parent / "known.yaml"


def main() -> int:
    """Run it; returns 0 when nothing differs, 1 when something does."""
    parser = argparse.ArgumentParser(prog="python -m hack.parity", description=__doc__)
    parser.add_argument("--only", metavar="REGEX", help="scenarios whose group/name matches")
    parser.add_argument("--real", metavar="KUBECONFIG", type=Path, help="a real server that runs already")
    parser.add_argument(
        "--ours", metavar="KUBECONFIG", type=Path, help="an embedded tenant that runs already"
    )
    parser.add_argument("--json", metavar="FILE", type=Path, help="where to store the result")
    options = parser.parse_args()
    wanted = [each for each in corpus.load() if re.search(options.only or "", f"{each.group}/{each.name}")]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vcsync-parity-")))
        real = (
            sides.side("real", options.real)
            if options.real
            else stack.enter_context(sides.real(folder / "real"))
        )
        ours = (
            sides.side("ours", options.ours)
            if options.ours
            else stack.enter_context(sides.embedded(folder / "ours"))
        )
        hooks = stack.enter_context(WebhookServer())
        given = {"hooks": hooks.url, "hooks_ca": hooks.bundle}
        result = compare(real, ours, wanted, allowed.load(), given)
    settle_known(result)
    report(result, whole=not options.only)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1))
    return 1 if result["different"] else 0


def compare(
    real: ask.Side,
    ours: ask.Side,
    scenarios: list[corpus.Scenario],
    meant: list[allowed.Allowance],
    given: Mapping[str, str],
) -> dict[str, Any]:
    """Replay scenarios against both and collect what differs; `given`: what `{...}` stands for from the start."""
    total: Counter[str] = Counter()
    same: Counter[str] = Counter()
    different: dict[str, list[str]] = {}
    for scenario in scenarios:
        pairs = zip(ask.replay(real, scenario, given), ask.replay(ours, scenario, given), strict=True)
        for (step, left), (_, right) in pairs:
            if step.may_fail:
                continue
            total[scenario.group] += 1
            found = [
                str(each)
                for each in differences(step, left, right)
                if not any(one.covers(step.name, each) for one in meant)
            ]
            if found:
                different[step.name] = found
            else:
                same[scenario.group] += 1
    return {
        "total": dict(total),
        "same": dict(same),
        "different": different,
        "unused": [str(each) for each in meant if not each.used],
    }


def settle_known(result: dict[str, Any]) -> None:
    """Set apart the requests of which it is known that they differ."""
    known = tuple(each["step"] for each in yaml.safe_load(KNOWN.read_text()))
    is_known = {name: any(_is_step(name, each) for each in known) for name in result["different"]}
    result["known"] = {name: found for name, found in result["different"].items() if is_known[name]}
    result["different"] = {name: found for name, found in result["different"].items() if not is_known[name]}


def _is_step(name: str, known: str) -> bool:
    return name.startswith(known) and (known.endswith("#") or not name[len(known)].isdigit())


def report(result: dict[str, Any], *, whole: bool) -> None:
    """Print what differs and how many requests of each group are the same."""
    for name, found in result["different"].items():
        print(name)
        for each in found:
            print(f"    {each}")
    for group, count in sorted(result["total"].items()):
        print(f"{group:24} {result['same'].get(group, 0):5} of {count}")
    print(f"{'all':24} {sum(result['same'].values()):5} of {sum(result['total'].values())}")
    if result["known"]:
        print(f"{len(result['known'])} differ as known.yaml says")
    for pattern in result["unused"] if whole else ():
        print(f"allowed.yaml: nothing matches {pattern!r} any more", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
