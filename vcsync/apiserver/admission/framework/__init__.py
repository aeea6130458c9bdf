"""Types of admission plug-ins, requests and rules that all kinds of admission share."""
