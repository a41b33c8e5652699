"""``python -m numeric`` is the command ``backprove``."""

from numeric.cli import main

main()
