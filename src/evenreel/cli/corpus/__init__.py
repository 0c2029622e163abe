"""`evenreel corpus`: import, describe, pair and edit corpora; one file a command."""
