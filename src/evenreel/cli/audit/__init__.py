"""`evenreel audit`: whether a ranking favours clips for the wrong reason."""
