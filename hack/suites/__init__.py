"""The suites of tests: which there are, how they run, and which of them have passed on the present tree."""
