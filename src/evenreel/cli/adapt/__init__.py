"""`evenreel adapt`: a matcher learns from the queries and clips of today."""
