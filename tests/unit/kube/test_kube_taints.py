"""Which taints tolerations bear, and for how long."""

import pytest

from vcsync.kube.taints import Taint, Toleration, borne, patience

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
def test_what_a_toleration_bears(toleration: Toleration, bears: bool) -> None:
    assert toleration.tolerates(LOST) == bears
    assert borne([LOST], [toleration]) == bears
    assert patience([LOST], [toleration]) == (None if bears else 0)


@pytest.mark.parametrize(
    ("seconds", "patient"), [((None, None), None), ((30, None), 30), ((30, 10), 10), ((30, -5), 0)]
)
def test_the_shortest_toleration_that_is_needed_counts(
    seconds: tuple[int | None, int | None], patient: float | None
) -> None:
    first, second = seconds
    tolerations = [
        Toleration("lost", "Exists", toleration_seconds=first),
        Toleration("lost", "Exists", toleration_seconds=1),
        Toleration("other", "Exists", toleration_seconds=second),
    ]
    assert patience([LOST, OTHER], tolerations) == patient


def test_no_taint_is_borne_for_ever() -> None:
    assert patience([], []) is None
