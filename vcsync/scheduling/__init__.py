"""The decisions of both schedulers: pure functions over exact integers that return decision and explanation as data."""
