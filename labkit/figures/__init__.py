"""The live figures of the book: each module makes one from a run's results.

A page asks for one by its module's name, with the directive of `labkit.sphinx_figures`. A module
offers `render`, from the results to HTML; a new one edits nothing else. It names the section that
it shows as `SECTION`, and what else than the run its numbers come from as `ORIGINS`, by the keys
of `labkit.origins`.
"""
