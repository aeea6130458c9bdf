import pytest

from vcsync.controlplane.wire.values import BadValue, duration_of


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [("0", 0), ("1h0m0s", 3600 * 10**9), ("-1.5s", -15 * 10**8), ("+.5ms", 5 * 10**5), ("1us2ns", 1002)],
)
def test_durations_are_read_as_go_reads_them(text, nanoseconds):
    assert duration_of(text) == nanoseconds


@pytest.mark.parametrize(
    ("text", "told"),
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
def test_what_is_no_duration_is_told_in_the_words_of_go(text, told):
    with pytest.raises(BadValue) as caught:
        duration_of(text)
    assert str(caught.value) == told
