"""`python -m bayesirt` is the command `bayesirt`."""

from bayesirt.cli import main

main()
