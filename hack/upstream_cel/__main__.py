"""`python -m hack.upstream_cel`: compares what both servers say of every expression of upstream's tests."""

import argparse
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from hack.parity import sides
from hack.parity.ask import Side
from hack.upstream_cel import asking, compare, expressions


def main() -> int:
    """Run the command; returns 0 if there is no unexpected difference, 1 otherwise."""
    parser = argparse.ArgumentParser(prog="python -m hack.upstream_cel", description=__doc__)
    parser.add_argument("--only", metavar="REGEX", help="expressions that match")
    parser.add_argument("--real", metavar="KUBECONFIG", type=Path, help="a kube-apiserver that runs already")
    parser.add_argument("--all", action="store_true", help="print expected differences, too")
    options = parser.parse_args()
    wanted = [each for each in expressions.all_expressions() if re.search(options.only or "", each)]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vcsync-cel-")))
        if options.real:
            real = sides.side("real", options.real)
        else:
            real, _ = stack.enter_context(sides.real(folder / "real"))
        ours = stack.enter_context(sides.embedded(folder / "ours"))
        found = list(
            compare.differences(
                wanted, _both(real, ours, asking.about_compiling), _both(real, ours, asking.about_values)
            )
        )
    table = compare.reasons()
    unexpected = []
    for each in found:
        reason = next((entry.reason for entry in table if entry.covers(each)), "")
        if not reason:
            unexpected.append(each)
        if options.all or not reason:
            print(f"{each}\n    {reason or 'unexpected'}")
    print(f"{len(wanted)} expressions, {len(found)} differ, {len(unexpected)} of them unexpectedly")
    return 1 if unexpected or not wanted else 0


def _both(
    real: Side, ours: Side, ask: Callable[[Side, Sequence[asking.Question]], asking.Told]
) -> compare.Ask:
    return lambda questions: (ask(real, questions), ask(ours, questions))


if __name__ == "__main__":
    sys.exit(main())
