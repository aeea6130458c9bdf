from vcsync.objects.kept import Kept


def test_what_was_not_asked_for_longest_is_forgotten():
    kept = Kept(10)
    for name in "abc":
        kept.put(name, name.upper(), 4)
        assert kept.get("a") == "A"
    assert (kept.get("a"), kept.get("b"), kept.get("c")) == ("A", None, "C")


def test_what_is_kept_anew_counts_once():
    kept = Kept(10)
    kept.put("a", 1, 4)
    kept.put("a", 2, 4)
    kept.put("b", 3, 4)
    assert (kept.get("a"), kept.get("b")) == (2, 3)


def test_the_newest_is_kept_however_large():
    kept = Kept(10)
    kept.put("a", 1, 4)
    kept.put("b", 2, 40)
    assert (kept.get("a"), kept.get("b")) == (None, 2)
