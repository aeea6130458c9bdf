"""Shuffle sharding: chooses the few queues of a priority level that a flow may use. Pure.

Two flows rarely share all of their queues. A flow that fills its own queues therefore leaves others a short one.
"""


def deal_queues(entropy: int, queues: int, size: int) -> list[int]:
    """Return `size` different numbers below `queues` that depend on the entropy only.

    Args:
        entropy: Hash of the flow, 64 bits.
        queues: Number of queues.
        size: Number of queues to deal; at most `queues`.
    """
    dealt: list[int] = []
    for number in range(min(size, queues)):
        entropy, card = divmod(entropy, queues - number)
        # Skip the numbers that were dealt before.
        for each in sorted(dealt):
            card += card >= each
        dealt.append(card)
    return dealt
