"""Makes `asked_plane` known to the tests of all rooms."""
