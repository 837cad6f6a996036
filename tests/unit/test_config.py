"""`controller.yaml`: what is wrong is named with file, line, field and what was expected."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import yaml

from stormpilot.cli.config_explain import settings
from stormpilot.config import Config, describe, load, parse, zookeeper_login
from stormpilot.config.example import example
from stormpilot.config.reading import read_yaml
from stormpilot.config.renamed import RENAMED
from stormpilot.errors import UsageError
from stormpilot.zookeeper.login import Login

EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "controller.example.yaml"


def test_empty_file_means_the_defaults_and_advice_only() -> None:
    assert parse("", "c.yaml") == parse("# nothing\n", "c.yaml") == Config()
    assert Config().decide.mode == "advise"


def test_settings_are_read_with_their_types() -> None:
    config = parse(
        "zookeeper: {hosts: 'z1:2181,z2:2181', root: /a/b}\n"
        "cycle: {period_s: 5}\n"
        "planner: {name: online, params: {alpha: 0.5}}\n"
        "decide:\n  modes: {flights: act}\n  exclude: ['test-*']\n",
        "c.yaml",
    )
    assert config.zookeeper.hosts == "z1:2181,z2:2181"
    assert config.cycle.period_s == 5.0
    assert config.planner.params == {"alpha": 0.5}
    assert config.decide.modes == {"flights": "act"}


def test_off_is_a_word_and_1e3_a_number() -> None:
    config = parse("decide: {mode: off}\ncycle: {period_s: 1e2}\napi: {enabled: True}\n", "c.yaml")
    assert (config.decide.mode, config.cycle.period_s, config.api.enabled) == ("off", 100.0, True)


def test_times_of_day_are_texts_and_numbers_stay_numbers() -> None:
    """In YAML 1.1 22:30 is 1,350, and 06:00 a text."""
    config = parse("decide: {blackouts: [{from: 22:30, to: 06:00}]}\ncycle: {period_s: +1_0.5}\n", "c.yaml")
    (blackout,) = config.decide.blackouts
    assert (blackout.from_, blackout.to) == ("22:30", "06:00")
    assert config.cycle.period_s == 10.5
    kinds = read_yaml("[1:30, 0x10, 010, .5, 1., -3, 1_000, .inf, 1e3, 1.5e+3, 190:20:30.15]", "x")[0]
    assert kinds == ["1:30", 16, 8, 0.5, 1.0, -3, 1000, math.inf, 1000.0, 1500.0, "190:20:30.15"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "decide:\n  modes:\n    123: act\n",
            "c.yaml:2: decide.modes: expected a text, got a whole number for a name (put quotes around it)",
        ),
        ("zookeeper: {root: /apps/../stormpilot}\n", "c.yaml:1: zookeeper.root: expected a path such as /stormpilot"),
        ("zookeeper: {root: /.}\n", "c.yaml:1: zookeeper.root: expected a path such as /stormpilot"),
        (
            "decide:\n  gain_treshold_ratio: 0.1\n",
            "c.yaml:2: decide.gain_treshold_ratio: unknown setting; did you mean gain_threshold_ratio?",
        ),
        ("zokeeper: {}\n", "c.yaml:1: zokeeper: unknown setting; did you mean zookeeper?"),
        ("cycle: {qqq: 1}\n", "c.yaml:1: cycle.qqq: unknown setting; expected one of period_s, poll_s"),
        ("cycle:\n  period_s: 5\n  period_s: 6\n", "c.yaml:3: cycle.period_s: given twice"),
        ("\n\ndecide:\n  mode: actt\n", "c.yaml:4: decide.mode: 'actt', expected one of off, advise, act"),
        ("decide: {modes: {flights: on}}\n", "c.yaml:1: decide.modes.flights: 'on', expected one of off, advise, act"),
        ("cycle:\n  period_s: 0\n", "c.yaml:2: cycle.period_s: expected a number >= 1.0"),
        ("cycle:\n  period_s: ten\n", "c.yaml:2: cycle.period_s: expected a number, got a text"),
        ("load:\n  window_s: .inf\n", "c.yaml:2: load.window_s: expected a number <= 3600.0"),
        ("load:\n  window_s: .nan\n", "c.yaml:2: load.window_s"),
        ("planner:\n  seed: 1.5\n", "c.yaml:2: planner.seed: expected a whole number"),
        ("decide:\n  include: [a, 1]\n", "c.yaml:2: decide.include[1]: expected a text, got a whole number"),
        ("cycle: 5\n", "c.yaml:1: cycle: expected names with values (name: value), got a whole number"),
        ("- a\n", "c.yaml:1: (file): expected names with values (name: value), got a list"),
        ("cycle: {period_s: 1, poll_s: 2}\n", "c.yaml:1: cycle: poll_s is 2, expected at most period_s (1)"),
        ("zookeeper: {root: stormpilot}\n", "c.yaml:1: zookeeper.root: expected a path such as /stormpilot"),
        (
            "api: {host: 0.0.0.0}\n",
            "c.yaml:1: api: host 0.0.0.0 is open to other machines, which needs tokens_file and",
        ),
        (
            "api: {host: storm-1, tokens_file: t}\n",
            "c.yaml:1: api: host storm-1 is open to other machines, which needs c",
        ),
        ("api: {cert_file: c}\n", "c.yaml:1: api: cert_file and key_file go together"),
        ("api: {host: 'storm-1/x'}\n", "c.yaml:1: api.host: expected a host name or an IP address"),
        ("zookeeper: {nimbus_acl: user}\n", "c.yaml:1: zookeeper.nimbus_acl: expected digest:user:hash or sasl:user"),
        ("api: {port: 70000}\n", "c.yaml:1: api.port: expected a whole number <= 65535"),
        ("notify: {url: 'ftp://x'}\n", "c.yaml:1: notify.url: expected an address that begins with http://"),
        ("notify: {events: [published, exploded]}\n", "c.yaml:1: notify.events[1]: 'exploded', expected one of con"),
        ("history: {enough: {days: 3}}\n", "c.yaml:1: history: enough: days is unknown, expected one of span_h, noise"),
        (
            "history:\n  enough: {moves: 2.5}\n",
            "c.yaml:1: history: enough: moves: expected a whole number, got a number",
        ),
        ("log: {format: xml}\n", "c.yaml:1: log.format: 'xml', expected one of text, json"),
        ("cycle: [\n", "c.yaml:2: not valid YAML"),
        ("a: b: c\n", "c.yaml:1: not valid YAML: mapping values are not allowed here"),
    ],
)
def test_what_is_wrong_is_named(text: str, said: str) -> None:
    with pytest.raises(UsageError) as e:
        parse(text, "c.yaml")
    assert str(e.value).startswith(said)


def test_all_unknown_settings_are_named_at_once() -> None:
    with pytest.raises(UsageError) as e:
        parse("cycel: {}\ndecide:\n  mod: act\n", "c.yaml")
    assert [line.split(": unknown")[0] for line in str(e.value).splitlines()] == [
        "c.yaml:1: cycel",
        "c.yaml:3: decide.mod",
    ]


def test_all_wrong_settings_are_named_at_once() -> None:
    text = (
        "cycel: {}\n"
        "zookeeper: {hosts: 5, root: stormpilot}\n"
        "cycle: {period_s: 1, poll_s: 2}\n"
        "decide:\n"
        "  mod: act\n"
        "  blackouts: [{from: '1:00', to: '02:00'}, {from: '01:00', to: 2}]\n"
        "  modes:\n"
        "    a: act\n"
        "    b: go\n"
        "publish: {plan_key_file: ~/key}\n"
        "sizing: {files: {a: ''}}\n"
    )
    with pytest.raises(UsageError) as e:
        parse(text, "c.yaml")
    assert [line.partition(": expected")[0] for line in str(e.value).splitlines()] == [
        "c.yaml:1: cycel: unknown setting; did you mean cycle?",
        "c.yaml:2: zookeeper.hosts",
        "c.yaml:2: zookeeper.root",
        "c.yaml:3: cycle: poll_s is 2, expected at most period_s (1)",
        "c.yaml:5: decide.mod: unknown setting; did you mean mode?",
        "c.yaml:6: decide.blackouts[0].from",
        "c.yaml:6: decide.blackouts[1].to",
        "c.yaml:9: decide.modes.b: 'go', expected one of off, advise, act",
        "c.yaml:10: publish.plan_key_file",
        "c.yaml:11: sizing.files.a",
    ]


@pytest.mark.parametrize(
    ("text", "looks"),
    [
        ('{"schema": 1, "supervisors": [], "topologies": [], "traffic": []}', "a model (model.json)"),
        ('{"schema": 1, "planner": "best", "seed": 0, "topologies": []}', "a plan (plan.json)"),
        ("storm.zookeeper.servers: [a]\nnimbus.seeds: [a]\nstorm.local.dir: x\n", "storm.yaml"),
        ("storm.zookeeper.servers: [a]\n", "storm.yaml"),
        ("hosts: z1:2181\nmode: act\nperiod_s: 5\n", "another file (its first level has none of our sections)"),
    ],
)
def test_a_file_of_another_kind_is_one_error_that_says_what_it_looks_like(text: str, looks: str) -> None:
    """A model given as the configuration listed each of its keys with all the sections that are expected."""
    with pytest.raises(UsageError) as e:
        parse(text, "c.yaml")
    said = f"c.yaml: looks like {looks}, expected the configuration of a controller, with sections such as "
    assert str(e.value).startswith(said)
    assert "\n" not in str(e.value)


def test_relative_paths_start_at_the_file(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    sizing = "sizing: {files: {a: a.yaml, b: /b.yaml}}\n"
    file.write_text(f"traffic_log: {{dir: log}}\nzookeeper: {{auth_file: /etc/x}}\n{sizing}")
    config = load(file)
    assert config.sizing.files == {"a": str(tmp_path / "a.yaml"), "b": "/b.yaml"}
    assert config.traffic_log.dir == str(tmp_path / "log")
    assert config.zookeeper.auth_file == "/etc/x"


def test_missing_file_and_wrong_encoding_are_named(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError,
        match=r"nowhere\.yaml: cannot read the configuration: No such file .*; stormpilot config example -o FILE",
    ):
        load(tmp_path / "nowhere.yaml")
    for data, why in ((b"\xff\xfe\x00", "is UTF-16"), (b"\n\x8e", "not UTF-8 text: invalid start byte at byte 1")):
        (tmp_path / "c.yaml").write_bytes(data)
        with pytest.raises(UsageError, match=rf"c\.yaml: cannot read the configuration: {why}"):
            load(tmp_path / "c.yaml")


def test_an_empty_file_is_no_configuration(tmp_path: Path) -> None:
    """It is one that is just being written: a reload took it for all defaults, without exclusions and blackouts."""
    file = tmp_path / "c.yaml"
    for text in ("", "\n"):
        file.write_text(text)
        with pytest.raises(UsageError, match=r"c\.yaml: is empty; a comment in it, or \{\}, stands for all defaults"):
            load(file)
    for text in ("# nothing\n", "{}"):
        file.write_text(text)
        assert load(file) == Config()


def test_login_is_read_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "login").write_text("storm:secret\n")
    assert zookeeper_login(Config().zookeeper) == Login()
    section = parse("zookeeper: {auth_file: login}", "c.yaml", tmp_path).zookeeper
    assert zookeeper_login(section) == Login("storm:secret")
    own = parse("zookeeper: {auth_file: login, nimbus_acl: 'digest:storm:h='}", "c.yaml", tmp_path).zookeeper
    assert zookeeper_login(own) == Login("storm:secret", readers=(("digest", "storm:h="),))
    for no_acl in ("digest:storm", "digest:storm:a:b", "digest::h=", "storm:h="):  # ZooKeeper would take no znode
        with pytest.raises(UsageError, match=r"c\.yaml:1: zookeeper\.nimbus_acl: "):
            parse(f"zookeeper: {{auth_file: login, nimbus_acl: '{no_acl}'}}", "c.yaml", tmp_path)
    with pytest.raises(UsageError, match="nimbus_acl without auth_file or jaas_file"):
        parse("zookeeper: {nimbus_acl: 'digest:storm:h='}", "c.yaml", tmp_path)
    for wrong in ("storm", "", "a:b c\n", ":x"):
        (tmp_path / "login").write_text(wrong)
        with pytest.raises(UsageError, match="expected one line user:password"):
            zookeeper_login(section)
    (tmp_path / "login").unlink()
    with pytest.raises(UsageError, match="cannot read it"):
        zookeeper_login(section)


@pytest.mark.parametrize(
    "line",
    [
        "{host: localhost}",
        "{host: '::1'}",
        "{host: 127.0.0.2}",
        "{host: 10.0.0.1, tokens_file: t, cert_file: c, key_file: k}",
        "{host: 0.0.0.0, insecure: true}",
        "{host: 0.0.0.0, enabled: false}",
    ],
)
def test_api_may_be_bound_where_it_is_protected(line: str, tmp_path: Path) -> None:
    api = parse(f"api: {line}", "c.yaml", tmp_path).api
    assert api.tokens_file in (None, str(tmp_path / "t"))


def test_example_lists_every_setting_that_is_not_advanced_with_its_default() -> None:
    """The file that people copy must not lag behind: `stormpilot config example` writes it."""
    assert EXAMPLE.read_text() == example()
    written = yaml.safe_load(EXAMPLE.read_text())
    keys = {f"{section}.{name}" for section, settings in written.items() for name in settings}
    advanced = {s.key for s in settings() if s.advanced}
    assert keys == {key for key, _ in describe(Config())} - advanced
    assert {"decide.mode", "decide.cool_down_s", "rollout.max_surge_workers"} <= keys
    assert {"load.jvm_idle_cores", "verify.back_off_s"} <= advanced
    changed = [key for key, value in describe(load(EXAMPLE)) if value != dict(describe(Config()))[key]]
    assert changed == ["traffic_log.dir"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("decide:\n  reschedule_timeout_s: 5\n", "c.yaml:2: decide.reschedule_timeout_s is now decide.cool_down_s"),
        ("decide: {moves: nonstop}", "decide.moves is now decide.move_strategy (and its value nonstop is now rolling)"),
        ("nonstop: {wait_at_most_s: 5}", "nonstop.wait_at_most_s is now rollout.capacity_timeout_s"),
        ("nonstop: {}", "nonstop is now rollout"),
        ("effect: {rollback: true}", "effect is now verify"),
        ("refill: {enabled: true}", "refill is now new_supervisors"),
        ("history: {ranges: {effect.noise_floor_ratio: [0, 1]}}", "is now verify.noise_floor_ratio"),
    ],
)
def test_an_old_key_is_an_error_that_names_the_new_one(text: str, said: str) -> None:
    with pytest.raises(UsageError) as error:
        parse(text, "c.yaml")
    assert said in str(error.value)


def test_every_new_name_of_an_old_key_is_there() -> None:
    known = {*dict(describe(Config())), *Config.__struct_fields__}
    assert {new.partition(" ")[0] for new in RENAMED.values()} <= known
    assert not set(RENAMED) & known
