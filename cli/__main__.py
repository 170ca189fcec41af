"""`python -m cli` is `lethe`."""

from cli.main import main

main()
