"""What both schedulers decide with: pure functions over exact integers, decision and explanation as data."""
