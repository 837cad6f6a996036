"""By which traffic plans are judged: measured pairs, or what shuffles will send under each placement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from stormpilot.model.compiled import Compiled, Ints
    from stormpilot.model.flow.model import FlowModel

Traffic = Literal["measured", "flow"]
TrafficOption = Annotated[
    Traffic | None,
    typer.Option(help="Judge by the measured pairs, or by what shuffles will send (the default if any do)."),
]
PREDICTED = "as shuffles will send it"


def flow_of(compiled: Compiled, traffic: Traffic | None) -> FlowModel | None:
    """The flow model where plans are judged by it: asked for, or by default where anything follows the placement."""
    from stormpilot.model.flow.model import depends_on_placement, flow_model

    if traffic == "measured" or (traffic is None and not depends_on_placement(compiled.model)):
        return None
    return flow_model(compiled.model, compiled)


def flow_metrics(flow: FlowModel | None, placement: Ints) -> dict[str, float]:
    """The figures that the flow model predicts for a placement, named `flow_...`; none where it is not complete."""
    from stormpilot.planner.flow.planning import PREFIX

    if flow is None or (placement < 0).any():
        return {}
    return {PREFIX + name: value for name, value in flow.predict(placement).metrics().items()}
