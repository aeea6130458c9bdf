"""Resource versions and continue tokens over several control planes: they come back as they were, or are refused."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.gateway.all_tenants.versions import (
    MAX_CONTROL_PLANES,
    MAX_POSITION,
    MAX_TOKEN,
    BadToken,
    Position,
    Versions,
    decode_position,
    decode_versions,
    encode_position,
    encode_versions,
    parse_number,
)

IDS = st.binary(min_size=5, max_size=5)
NUMBERS = st.integers(0, 2**63 - 1)
VERSIONS = st.builds(Versions, NUMBERS, st.dictionaries(IDS, NUMBERS, max_size=20))
TOKENS = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=200)
POSITIONS = st.builds(Position, VERSIONS, st.one_of(st.just(b""), IDS), TOKENS)


@given(VERSIONS)
def test_versions_come_back(versions: Versions) -> None:
    text = encode_versions(versions)
    assert decode_versions(text) == versions
    assert text.replace("-", "").replace("_", "").isalnum()  # needs no encoding in a URL
    with pytest.raises(BadToken):
        decode_position(text)


@given(POSITIONS)
def test_positions_come_back(position: Position) -> None:
    text = encode_position(position)
    assert decode_position(text) == position
    with pytest.raises(BadToken):
        decode_versions(text)


@given(VERSIONS)
def test_versions_have_one_form(versions: Versions) -> None:
    turned = Versions(versions.embedded, dict(reversed(versions.external.items())))
    assert encode_versions(turned) == encode_versions(versions)


@given(st.text(max_size=100))
def test_other_texts_are_refused(text: str) -> None:
    for decode in (decode_versions, decode_position):
        with pytest.raises(BadToken):
            decode(text)


@given(VERSIONS, st.data())
def test_damaged_tokens_are_refused(versions: Versions, data: st.DataObject) -> None:
    text = encode_versions(versions)
    at = data.draw(st.integers(1, len(text) - 1))
    other = data.draw(st.sampled_from(sorted(set("abcXYZ019-_") - {text[at]})))
    damaged = text[:at] + other + text[at + 1 :]
    same = base64.urlsafe_b64decode(damaged[1:] + "===") == base64.urlsafe_b64decode(text[1:] + "===")
    if not same:  # the last character has bits that mean nothing
        with pytest.raises(BadToken):
            decode_versions(damaged)


def test_the_largest_token_fits_into_a_url() -> None:
    external = {number.to_bytes(5, "big"): 2**35 for number in range(1, MAX_CONTROL_PLANES + 1)}
    versions = Versions(2**40, external)
    assert len(encode_versions(versions)) < MAX_TOKEN
    position = Position(versions, (7).to_bytes(5, "big"), "t" * MAX_POSITION)
    assert len(encode_position(position)) < MAX_TOKEN
    assert decode_position(encode_position(position)) == position
    with pytest.raises(BadToken):
        encode_versions(versions.with_external(b"other", 5))
    with pytest.raises(BadToken):
        encode_position(Position(versions, b"", "t" * (MAX_POSITION + 1)))


@pytest.mark.parametrize("text", ["", "-1", "1.0", "x", "\uff11", "9" * 20, str(2**63), 5, None])
def test_a_version_that_is_no_number_is_refused(text: object) -> None:
    with pytest.raises(BadToken):
        parse_number(text)
