"""`evenreel score`: the scores of a matcher, or of on-screen words, on a corpus."""
