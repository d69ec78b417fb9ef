"""One file a bench: its `measure_figures` yields what it found. `tests/bench.py` runs them."""
