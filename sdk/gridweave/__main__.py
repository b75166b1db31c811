"""`python -m gridweave` is the command line."""

from gridweave.commands import main

main()
