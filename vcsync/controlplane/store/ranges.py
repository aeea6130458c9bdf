"""Where a range of keys ends, for every store: keys are ordered by their bytes in UTF-8."""


def end_of(prefix: bytes) -> bytes:
    """Return the first key behind all those that begin with a prefix (`clientv3.GetPrefixRangeEnd`).

    An empty prefix has no such key: the answer is the zero byte, which etcd takes for no end at all.
    """
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else b"\0"
