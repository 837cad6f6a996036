"""Whatever lies in ZooKeeper or comes in a request: an answer that names it, and never an error of ours."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from doubles.hostile import NUMBERS, TEXTS, bombs, mutated
from doubles.memory_zookeeper import MemoryZooKeeper

from .conftest import ID, Api

LONG = "/api/v1/what-if"
"""It plans: the tests of `what-if` itself are enough."""


def written(zookeeper: MemoryZooKeeper) -> list[str]:
    return sorted(path for path, node in zookeeper._nodes.items() if node.data)


def operations(api: Api) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Method, path and description of everything that the OpenAPI document lists."""
    document = api.client("admin").get("/schema/openapi.json").json()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if path != LONG:
                yield method, path, operation


@pytest.mark.parametrize("what", sorted(bombs()))
def test_a_bomb_in_any_znode_is_named_by_status_and_no_read_fails(api: Api, what: str) -> None:
    paths = written(api.zookeeper)
    assert len(paths) > 5
    for path in paths:
        api.zookeeper.put(path, bombs()[what])
    for extra in (api.paths.mode("flights"), api.paths.hold(ID), api.paths.request(ID), api.paths.plan(ID)):
        api.zookeeper.put(extra, bombs()[what])
    client = api.client("admin")
    answer = client.get("/api/v1/status")
    assert answer.status_code == 200
    if what != "empty":  # an empty report is one that was not written yet
        named = {p["path"] for p in answer.json()["problems"]}
        assert {api.paths.topology(ID), api.paths.cluster, api.paths.plan(ID)} <= named
    for method, path, _ in operations(api):
        if method == "get":
            given = path.format(topology=ID, request_id="x", host="a")
            assert client.get(given).status_code in (200, 400, 404, 409, 503), given
    assert client.get("/healthz").status_code == 200


def body_of(schema: Any, schemas: dict[str, Any], chance: random.Random) -> Any:
    """A value that the schema allows, as far as its types go."""
    if "$ref" in schema:
        return body_of(schemas[schema["$ref"].rpartition("/")[2]], schemas, chance)
    if "oneOf" in schema:
        return body_of(chance.choice(schema["oneOf"]), schemas, chance)
    if "enum" in schema:
        return chance.choice(schema["enum"])
    kind = schema.get("type")
    if kind == "object":
        required = set(schema.get("required", ()))
        properties = schema.get("properties", {})
        return {k: body_of(v, schemas, chance) for k, v in properties.items() if k in required or chance.random() < 0.5}
    if kind == "array":
        return [body_of(schema["items"], schemas, chance) for _ in range(chance.randint(0, 3))]
    if kind in ("integer", "number"):
        return chance.choice((*NUMBERS, 1, 2))
    return {"boolean": chance.random() < 0.5, "null": None}.get(str(kind), chance.choice((*TEXTS, "flights", ID, "a")))


@pytest.mark.parametrize("seed", range(4))
def test_requests_from_the_description_with_hostile_values_are_answered_without_an_error_of_ours(
    api: Api, seed: int
) -> None:
    chance = random.Random(seed)
    client = api.client("admin")
    schemas = client.get("/schema/openapi.json").json()["components"]["schemas"]
    asked = 0
    for method, path, operation in operations(api):
        for _ in range(5):
            texts = [t for t in TEXTS if t and t not in ("..", "/")]
            names = {k: chance.choice((*texts, ID, "flights")) for k in ("topology", "request_id", "host")}
            query = {
                p["name"]: body_of(p["schema"], schemas, chance)
                for p in operation.get("parameters", [])
                if p["in"] == "query"
            }
            url = path.format(**{k: quote(v, safe="") for k, v in names.items()})
            body = None
            if "requestBody" in operation:
                schema = operation["requestBody"]["content"]["application/json"]["schema"]
                body = mutated(body_of(schema, schemas, chance), chance, chance.randint(0, 2))
            answer = client.request(method, url, params=query, json=body)
            assert answer.status_code != 500, (method, url, query, body)
            asked += 1
    assert asked > 100


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[" * 60_000, b'{"a":' * 10_000, b"\xff\xfe", b'{"topology":"\xff"}', b"9" * 60_000, b"x" * 70_000],
)
def test_a_body_that_is_no_json_is_refused(api: Api, content: bytes) -> None:
    client = api.client("admin")
    for path in ("/api/v1/pause", "/api/v1/mode", "/api/v1/thresholds/set", LONG):
        answer = client.post(path, content=content, headers={"Content-Type": "application/json"})
        assert answer.status_code in (400, 413, 503), (path, answer.text)
