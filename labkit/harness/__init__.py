"""Greedy traces, comparison with a baseline, and the verdict on an option.

The harness knows a stack only through the backend contract.
"""

from labkit.harness.compare import Run as Run
from labkit.harness.compare import compare as compare
from labkit.harness.compare import distance_rms as distance_rms
from labkit.harness.traces import Baseline as Baseline
from labkit.harness.traces import Trace as Trace
from labkit.harness.traces import first_divergence as first_divergence
from labkit.harness.traces import follow as follow
from labkit.harness.traces import greedy as greedy
from labkit.harness.traces import near_tie_share as near_tie_share
from labkit.harness.verdict import Lane as Lane
from labkit.harness.verdict import judge as judge
from labkit.harness.verdict import summarise_knob as summarise_knob
