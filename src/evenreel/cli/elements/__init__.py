"""`evenreel elements`: a dictionary of scene elements, and the phrases that lie nearest to each clip."""
