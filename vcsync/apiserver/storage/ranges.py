"""The ends of key ranges, for every store. Keys are ordered by their UTF-8 bytes."""


def end_of(prefix: bytes) -> bytes:
    """Return the first key after all keys with a prefix (`clientv3.GetPrefixRangeEnd`).

    For an empty prefix it returns the zero byte, which means no end in etcd.
    """
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else b"\0"
