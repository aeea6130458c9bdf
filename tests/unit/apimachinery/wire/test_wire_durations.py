import pytest

from vcsync.apimachinery.wire.values import BadValue, duration_of


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [("0", 0), ("1h0m0s", 3600 * 10**9), ("-1.5s", -15 * 10**8), ("+.5ms", 5 * 10**5), ("1us2ns", 1002)],
)
def test_durations_are_parsed_as_in_go(text, nanoseconds):
    assert duration_of(text) == nanoseconds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'time: invalid duration ""'),
        ("soon", 'time: invalid duration "soon"'),
        ("-", 'time: invalid duration "-"'),
        ("5", 'time: missing unit in duration "5"'),
        ("1m5", 'time: missing unit in duration "1m5"'),
        ("1.5.s", 'time: missing unit in duration "1.5.s"'),
        ("3d", 'time: unknown unit "d" in duration "3d"'),
        ("1ss", 'time: unknown unit "ss" in duration "1ss"'),
        (".s", 'time: invalid duration ".s"'),
        ("1s.", 'time: invalid duration "1s."'),
        ("1s-5s", 'time: unknown unit "s-" in duration "1s-5s"'),
    ],
)
def test_invalid_durations_are_refused_with_gos_messages(text, message):
    with pytest.raises(BadValue) as caught:
        duration_of(text)
    assert str(caught.value) == message
