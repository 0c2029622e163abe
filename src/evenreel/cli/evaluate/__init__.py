"""`evenreel evaluate`: metrics of scores, with intervals."""
