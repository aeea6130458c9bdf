"""Replays scenarios on both servers, and on a second kube-apiserver where their answers differ.

Some values differ between two kube-apiservers that get the same requests: addresses that they choose, names and keys
that they generate. Where the answer of the second kube-apiserver differs from that of the first, ours may differ, too,
if its value has the same type. Other answers depend on the order in which the controllers of a kube-apiserver run, such
as the number of its writes. Ours may answer as either of the two did. Every run finds these paths by comparison, without
a list.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from hack.parity import ask, steps
from hack.parity.allowed import Allowance
from hack.parity.compare import Difference, differences
from hack.parity.corpus import FIELDS, Scenario, Step

CONCURRENT_SCENARIOS = 3
"""Number of independent scenarios that are replayed concurrently."""
TWIN_REPLAYS = 3
"""Maximum number of replays on the second kube-apiserver, because two random choices may be equal."""

Pair = tuple[Step, ask.Answer, ask.Answer]


@dataclass(frozen=True)
class Servers:
    """The embedded control plane, a kube-apiserver and a second one."""

    real: ask.Side
    ours: ask.Side
    twin: ask.Side


@dataclass(frozen=True)
class Outcome:
    """A step, the differences of its answers (`found`), and the status code of the kube-apiserver's answer."""

    group: str
    step: Step
    code: int
    found: tuple[str, ...]


def outcomes(
    servers: Servers,
    scenarios: Sequence[Scenario],
    allowances: Sequence[Allowance],
    known: Container[str],
    variables: Mapping[str, str],
) -> Iterator[Outcome]:
    """Replay scenarios and yield the result of each step.

    Args:
        servers: to which the requests are sent.
        scenarios: replayed in this order, except independent ones, which are replayed concurrently.
        allowances: deliberate differences.
        known: names of steps that are known to differ; they do not cause a replay on the second kube-apiserver.
        variables: initial values of `{...}`.
    """
    alone = [each for each in scenarios if each.group != FIELDS]
    together = [each for each in scenarios if each.group == FIELDS]
    for each in alone:
        yield from _outcomes(servers, each, allowances, known, variables)
    with ThreadPoolExecutor(CONCURRENT_SCENARIOS) as pool:
        for found in pool.map(lambda each: _outcomes(servers, each, allowances, known, variables), together):
            yield from found


def _outcomes(
    servers: Servers,
    scenario: Scenario,
    allowances: Sequence[Allowance],
    known: Container[str],
    variables: Mapping[str, str],
) -> list[Outcome]:
    pairs = _pairs(servers.real, servers.ours, scenario, variables)
    found = [_not_allowed(*each, allowances) for each in pairs]
    for _ in range(TWIN_REPLAYS):
        if all(not each or step.name in known for each, (step, _, _) in zip(found, pairs, strict=True)):
            break
        twin = [answer for _, answer in steps.replay(servers.twin, scenario, variables)]
        found = [
            _not_varying(each, real, ours, answer, step) if each else each
            for each, (step, real, ours), answer in zip(found, pairs, twin, strict=True)
        ]
    return [
        Outcome(scenario.group, step, real.code, tuple(str(one) for one in each))
        for each, (step, real, _) in zip(found, pairs, strict=True)
        if not step.may_fail
    ]


def _pairs(real: ask.Side, ours: ask.Side, scenario: Scenario, variables: Mapping[str, str]) -> list[Pair]:
    pairs = zip(steps.replay(real, scenario, variables), steps.replay(ours, scenario, variables), strict=True)
    return [(step, left, right) for (step, left), (_, right) in pairs]


def _not_allowed(
    step: Step, real: ask.Answer, ours: ask.Answer, allowances: Sequence[Allowance]
) -> list[Difference]:
    if step.may_fail:
        return []
    return [
        each
        for each in differences(step, real, ours)
        if not any(allowance.covers(step.name, each) for allowance in allowances)
    ]


def _not_varying(
    found: list[Difference], real: ask.Answer, ours: ask.Answer, twin: ask.Answer, step: Step
) -> list[Difference]:
    """Return the differences at paths where two kube-apiservers agree, or where ours is like neither of them."""
    varying = {(each.event, each.path) for each in differences(step, real, twin)}
    unlike = {(each.event, each.path) for each in differences(step, twin, ours)}

    def varies(each: Difference) -> bool:
        place = (each.event, each.path)
        return place in varying and (place not in unlike or type(each.real) is type(each.ours))

    return [each for each in found if not varies(each)]
