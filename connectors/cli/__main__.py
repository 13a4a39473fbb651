"""``python -m connectors.cli``."""

from connectors.cli import main

main()
