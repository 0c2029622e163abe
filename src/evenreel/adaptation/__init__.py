"""Test-time training: a matcher that adapts to a gallery and its queries, without labels (TITAN)."""
