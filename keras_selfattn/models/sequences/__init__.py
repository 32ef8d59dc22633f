"""Models from sequences to sequences: symbols of both sides, the search for answers."""
