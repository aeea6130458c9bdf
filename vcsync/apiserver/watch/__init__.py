"""The watch cache: one watch of the store for the watches of all clients."""
