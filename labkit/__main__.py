"""Run the command line: `python -m labkit` is `labkit`."""

from labkit.cli import main

raise SystemExit(main())
