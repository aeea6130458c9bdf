"""Documents that expand when they are parsed are refused, with the messages of kube-apiserver."""

import pytest

from vcsync.apimachinery.wire import goyaml

BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{here}: &{here} [{','.join(['*' + before] * 9)}]\n"
    for before, here in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("data: &d\n  a: *d\n", "anchor 'd' value contains itself"),
        ("data: &d [*d]\n", "anchor 'd' value contains itself"),
        ("data: *d\n", "unknown anchor 'd' referenced"),
        (BOMB, "document contains excessive aliasing"),
        ("[" * 20_000, "max depth"),
    ],
)
def test_recursive_and_growing_documents_are_refused(text, why):
    with pytest.raises(goyaml.NotYAML, match=why):
        goyaml.loads(text.encode())


def test_an_anchor_can_be_repeated_after_its_value():
    assert goyaml.loads(b"a: &d {k: v}\nb: *d\nc: &d {k: w}\ne: *d\n")[0] == {
        "a": {"k": "v"}, "b": {"k": "v"}, "c": {"k": "w"}, "e": {"k": "w"},
    }  # fmt: skip
