"""How property tests run: the same examples each time and without a time limit; HYPOTHESIS_PROFILE=thorough searches anew."""

import os

from hypothesis import HealthCheck, settings

# A loaded machine must not turn a right answer into a failure, nor chance a green run into a red one.
settings.register_profile(
    "steady",
    deadline=None,
    derandomize=True,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile(
    "thorough", deadline=None, max_examples=1000, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))
