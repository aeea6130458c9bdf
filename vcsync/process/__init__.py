"""The parts of every vcsync process: event loop, signals, logs, accepted connections, and the lock that shows that it lives."""
