"""Numbers of JSON, YAML and patches have the form in which Go decodes and encodes them."""

import pytest

from vcsync.apimachinery import numbers
from vcsync.apimachinery.wire import gojson

NUMBERS = [
    ("4.0", "4"),
    ("3e2", "300"),
    ("1E3", "1000"),
    ("-0.0", "0"),
    ("0.5", "0.5"),
    ("1e20", "100000000000000000000"),
    ("9007199254740993.0", "9007199254740992"),
    ("1234567890123456768.0", "1234567890123456800"),
    ("9223372036854775807", "9223372036854775807"),
    ("9223372036854775808", "9223372036854776000"),
    ("18446744073709551616", "18446744073709552000"),
    ("-9223372036854775809", "-9223372036854776000"),
    ("-9223372036854775808", "-9223372036854775808"),
]
"""(as written, as Go's encoding/json writes it after decoding)."""


@pytest.mark.parametrize(("written", "wanted"), NUMBERS)
def test_a_number_of_json_has_the_form_of_go(written: str, wanted: str) -> None:
    found = gojson.loads(b'{"a":[%b]}' % written.encode())
    assert numbers.encoded(found).decode() == f'{{"a":[{wanted}]}}'


def test_go_writes_small_and_large_numbers_with_an_exponent() -> None:
    assert [numbers.text(each) for each in (1e-6, 9.9e-7, 1e-7, 1.5e-10, 1e21, 1.5e300, 1e20, 0.25)] == [
        "0.000001", "9.9e-7", "1e-7", "1.5e-10", "1e+21", "1.5e+300", "100000000000000000000", "0.25",
    ]  # fmt: skip


@pytest.mark.parametrize("written", ["1e400", "-1e400", "[" + "9" * 400 + "]", "[" + "9" * 5000 + "]"])
def test_a_number_that_is_no_float64_is_refused(written: str) -> None:
    with pytest.raises(gojson.NotJSON, match=r"json: cannot unmarshal number -?[1-9]"):
        gojson.loads(written.encode())
