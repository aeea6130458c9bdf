"""Taints, tolerations, and the time for which taints are tolerated."""

import pytest

from vcsync.objects import taints
from vcsync.objects.envelope import Envelope
from vcsync.objects.taints import Taint, Toleration, all_tolerated, tolerated_seconds

LOST = Taint("lost", "yes", "NoExecute")
OTHER = Taint("other", "", "NoExecute")


@pytest.mark.parametrize(
    ("toleration", "bears"),
    [
        (Toleration("lost", "Equal", "yes", "NoExecute"), True),
        (Toleration("lost", "", "yes", "NoExecute"), True),
        (Toleration("lost", "Equal", "yes"), True),
        (Toleration("lost", "Exists"), True),
        (Toleration("", "Exists"), True),
        (Toleration("lost", "Equal", "no"), False),
        (Toleration("lost", "Exists", "", "NoSchedule"), False),
        (Toleration("other", "Exists"), False),
        (Toleration("lost", "Lt", "5"), False),
    ],
)
def test_a_toleration_tolerates_matching_taints(toleration: Toleration, bears: bool) -> None:
    assert toleration.tolerates(LOST) == bears
    assert all_tolerated([LOST], [toleration]) == bears
    assert tolerated_seconds([LOST], [toleration]) == (None if bears else 0)


@pytest.mark.parametrize(
    ("seconds", "patient"), [((None, None), None), ((30, None), 30), ((30, 10), 10), ((30, -5), 0)]
)
def test_the_shortest_matching_toleration_counts(
    seconds: tuple[int | None, int | None], patient: float | None
) -> None:
    first, second = seconds
    tolerations = [
        Toleration("lost", "Exists", toleration_seconds=first),
        Toleration("lost", "Exists", toleration_seconds=1),
        Toleration("other", "Exists", toleration_seconds=second),
    ]
    assert tolerated_seconds([LOST, OTHER], tolerations) == patient


def test_no_taints_are_tolerated_forever() -> None:
    assert tolerated_seconds([], []) is None


def test_taints_and_tolerations_are_parsed_from_nodes_and_pods() -> None:
    node = Envelope(
        "n",
        spec=b'{"taints":[{"key":"a","value":"1","effect":"NoSchedule"},{"key":"b","effect":"NoExecute"}]}',
    )
    assert taints.of_node(node, taints.NO_SCHEDULE) == (taints.Taint("a", "1", "NoSchedule"),)
    assert taints.of_node(node, taints.NO_EXECUTE) == (taints.Taint("b", "", "NoExecute"),)
    assert len(taints.of_node(node, taints.NO_SCHEDULE, taints.NO_EXECUTE)) == 2
    assert taints.of_node(Envelope("n", spec=b'{"taints":null}'), taints.NO_EXECUTE) == ()
    assert taints.of_node(Envelope("n", spec=b"{}"), taints.NO_EXECUTE) == ()
    pod = Envelope("p", spec=b'{"tolerations":[{"key":"a","operator":"Exists","tolerationSeconds":3}]}')
    assert taints.of_pod(pod) == (taints.Toleration("a", "Exists", toleration_seconds=3),)
    assert taints.of_pod(Envelope("p", spec=b'{"tolerations":null}')) == ()
    assert taints.of_pod(Envelope("p", spec=b"{}")) == ()
