"""`python -m evenreel` is the command `evenreel`."""

from evenreel.cli import main

main()
