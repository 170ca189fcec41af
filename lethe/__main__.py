"""`python -m lethe` is `lethe`."""

from lethe.cli.main import main

main()
