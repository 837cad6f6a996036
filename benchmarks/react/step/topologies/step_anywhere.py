"""`step` with sources that may run anywhere, and two executors of each component (tests/e2e/test_loop.py)."""

import step
from step_components import Deliver, Sort, Source
from streamparse import Grouping, Topology


class StepAnywhere(Topology):
    """source -> sort -> east or west, which are bound to their site: where source and sort should be changes."""

    config = step.Step.config

    source = Source.spec(par=2)
    sort = Sort.spec(inputs={source: Grouping.fields("key")}, par=2)
    east = Deliver.spec(inputs={sort["east"]: Grouping.fields("key")}, par=2, config={"site": "east"})
    west = Deliver.spec(inputs={sort["west"]: Grouping.fields("key")}, par=2, config={"site": "west"})
