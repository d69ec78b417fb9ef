"""Options of a stack, one registered function each.

A knob is a context manager that takes a backend and yields a changed one. To add one, write
a function with `@knob` in a file of this folder, or in a module of your own and name it
`module:function`; nothing else is edited.
"""

from labkit.knobs.registry import KNOBS as KNOBS
from labkit.knobs.registry import Knob as Knob
from labkit.knobs.registry import Option as Option
from labkit.knobs.registry import Prompt as Prompt
from labkit.knobs.registry import Row as Row
from labkit.knobs.registry import knob as knob
from labkit.knobs.registry import parse_option as parse_option
from labkit.knobs.registry import preservation_table as preservation_table
from labkit.knobs import precision as _precision  # noqa: F401  # registers its knobs
from labkit.knobs import runtime as _runtime  # noqa: F401  # registers its knobs
from labkit.knobs import model as _model  # noqa: F401  # registers its knobs
from labkit.knobs.model import fake_quantise_linears as fake_quantise_linears
