"""The reference chain of the adaptive scheduler's paper [A13 4.1]: what its components are, and its configuration."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from streamparse.thrift import (
    Bolt,
    ComponentCommon,
    ComponentObject,
    GlobalStreamId,
    Grouping,
    JavaObject,
    NullStruct,
    SpoutSpec,
    StormTopology,
    StreamInfo,
)

JAVA = "io.stormpilot.worker.topology."
FIELDS = ["key", "payload"]


@dataclass(frozen=True)
class Chain:
    """A spout, `stages` bolts that take their tuples by shuffle (stateless) and by key (stateful) in turn, a last bolt.

    Attributes
    ----------
    stages
        How many bolts between spout and last bolt.
    replication
        Executors of each component.
    payload_bytes
        Of a tuple, besides its key.
    selectivity
        Tuples that a stage sends for each that comes.
    keys
        How many keys there are.
    turns
        By stage, selectivities that take turns: `{"stage_1": "3x240,1x240"}` sends three for one for 240 s, then one.
    """

    stages: int = 5
    replication: int = 2
    payload_bytes: int = 500
    selectivity: float = 1.0
    keys: int = 1000
    turns: Mapping[str, str] = field(default_factory=dict)

    def conf(self, schedule: str) -> dict[str, Any]:
        """The part of the topology's configuration that its components read."""
        return {
            "chain.rate.schedule": schedule,
            "chain.payload.bytes": self.payload_bytes,
            "chain.selectivity": self.selectivity,
            "chain.keys": self.keys,
        }

    def topology(self) -> StormTopology:
        """For Nimbus; its classes are in the topologies' jar."""
        names = ["source", *(f"stage_{n}" for n in range(1, self.stages + 1))]
        bolts = {}
        for n, name in enumerate(names[1:], 1):
            stateful = n % 2 == 0
            own: dict[str, Any] = {"chain.stateful": stateful}
            if name in self.turns:
                own["chain.selectivity.schedule"] = self.turns[name]
            bolts[name] = Bolt(
                bolt_object=_java("ChainBolt"),
                common=self._common(names[n - 1], stateful, own, FIELDS),
            )
        bolts["last"] = Bolt(bolt_object=_java("SinkBolt"), common=self._common(names[-1], False, {}, []))
        return StormTopology(
            spouts={
                "source": SpoutSpec(spout_object=_java("ChainSpout"), common=self._common(None, False, {}, FIELDS))
            },
            bolts=bolts,
            state_spouts={},
        )

    def _common(self, source: str | None, by_key: bool, conf: dict[str, Any], fields: list[str]) -> ComponentCommon:
        grouping = Grouping(fields=FIELDS[:1]) if by_key else Grouping(shuffle=NullStruct())
        return ComponentCommon(
            inputs={GlobalStreamId(componentId=source, streamId="default"): grouping} if source else {},
            streams={"default": StreamInfo(output_fields=fields, direct=False)} if fields else {},
            parallelism_hint=self.replication,
            json_conf=json.dumps({**conf, "topology.tasks": self.replication}),
        )


def _java(name: str) -> ComponentObject:
    return ComponentObject(java_object=JavaObject(full_class_name=JAVA + name, args_list=[]))
