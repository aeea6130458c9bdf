"""Shuffle sharding: which few of a level's queues are a flow's. Pure.

Two flows seldom share all of their queues, so that one that floods its own leaves others a short one.
"""


def hand(entropy: int, queues: int, size: int) -> list[int]:
    """Deal `size` different numbers below `queues`, by the entropy (64 bits) alone.

    Args:
        entropy: hash of the flow.
        queues: how many there are.
        size: how many to deal; at most `queues`.
    """
    dealt: list[int] = []
    for number in range(min(size, queues)):
        entropy, card = divmod(entropy, queues - number)
        # Of the numbers not dealt yet, the one at this place.
        for each in sorted(dealt):
            card += card >= each
        dealt.append(card)
    return dealt
