from vcsync.fairqueue.errors import LastErrors


def recorded(errors):
    return [(group, item) for group, item, _ in errors]


def test_an_error_replaces_the_items_earlier_one():
    errors = LastErrors(10)
    errors.record("t", "pod", ValueError("first"), time=1.0, attempts=1)
    errors.record("t", "pod", KeyError("second"), time=2.0, attempts=2, reconcile="ab-2")
    assert list(errors) == [("t", "pod", ("KeyError: 'second'", 2.0, 2, "ab-2"))]
    assert len(errors) == 1


def test_a_settled_item_leaves_no_state():
    errors = LastErrors(10)
    errors.record("t", "pod", ValueError("x"), time=1.0, attempts=1)
    errors.settle("t", "pod")
    errors.settle("t", "pod")
    errors.settle("unknown", "pod")
    assert list(errors) == []
    assert len(errors) == 0


def test_a_tenant_with_many_errors_does_not_displace_those_of_others():
    errors = LastErrors(10)
    errors.record("quiet", "pod", ValueError("x"), time=0.0, attempts=1)
    for n in range(1000):
        errors.record("noisy", f"pod-{n}", ValueError("x"), time=1.0, attempts=1)
    assert len(errors) == 10
    assert ("quiet", "pod") in recorded(errors)
    assert [item for group, item in recorded(errors) if group == "noisy"] == [
        f"pod-{n}" for n in range(991, 1000)
    ]


def test_a_long_message_is_shortened():
    errors = LastErrors(10)
    errors.record("t", "pod", ValueError("x" * 1_000_000), time=0.0, attempts=1)
    ((_, _, error),) = errors
    assert len(error.message) == 500
    assert error.message.startswith("ValueError: xxx")
    assert error.message.endswith("…")
