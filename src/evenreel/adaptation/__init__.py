"""Test-time training: a matcher that adapts to the videos and queries of today, without labels (TITAN)."""
