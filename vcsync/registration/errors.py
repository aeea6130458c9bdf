"""The error of the registration of clusters."""


class RegistrationError(Exception):
    """A cluster cannot be registered, changed or removed now. The message says why and names the remedy."""
