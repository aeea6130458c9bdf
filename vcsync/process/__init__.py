"""The parts of every vcsync process: event loop, signals, logs, and the lock that shows that it is alive."""
