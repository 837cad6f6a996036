"""The streamparse project as a whole: files, environments, settings and what the README says of them agree."""

import json
import re
from dataclasses import fields

import pytest

from flight_delays import settings as flight_settings
from inprocess_storm import PROJECT, load_topology
from micro_tasks import settings as micro_settings
from word_count import settings as word_settings

CONFIG = json.loads((PROJECT / "config.json").read_text())
README = (PROJECT / "README.md").read_text()
SETTINGS = {
    "flights": flight_settings,
    "micro_linear": micro_settings,
    "micro_services": micro_settings,
    "wordcount_comm": word_settings,
    "wordcount_comp": word_settings,
    "wordcount_keyed": word_settings,
}


def executors(name: str, env: str) -> int:
    """Executors of a topology with its ackers."""
    topology = load_topology(name)
    parallelism = [spec.par[env] if isinstance(spec.par, dict) else spec.par for spec in topology.specs]
    return sum(parallelism) + topology.config["topology.acker.executors"]


def test_every_topology_file_is_tested_here():
    assert {file.stem for file in (PROJECT / "topologies").glob("*.py")} == SETTINGS.keys()


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("env", CONFIG["envs"])
def test_every_environment_has_a_parallelism_for_every_component(name, env):
    assert executors(name, env) > 8


def test_flights_is_as_large_as_the_readme_says():
    assert executors("flights", "local") == 26
    assert "26" in README


@pytest.mark.parametrize("env", CONFIG["envs"])
def test_no_environment_needs_ssh_or_a_virtualenv(env):
    values = CONFIG["envs"][env]
    assert not any(values[key] for key in ("use_ssh_for_nimbus", "use_virtualenv", "install_virtualenv"))


@pytest.mark.parametrize("name", SETTINGS)
def test_the_settings_of_every_topology_are_accepted(name):
    SETTINGS[name].Settings.from_storm_conf(load_topology(name).config)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_topology_sets_no_key_that_nobody_reads(name):
    known = set(SETTINGS[name]._KEYS.values())
    assert {key for key in load_topology(name).config if not key.startswith("topology.")} <= known


@pytest.mark.parametrize(
    "module", [flight_settings, word_settings, micro_settings], ids=["flights", "wordcount", "micro"]
)
def test_the_readme_lists_every_key(module):
    listed = set(re.findall(r"^\| `([a-z.]+)` \|", README, flags=re.MULTILINE))
    assert set(module._KEYS.values()) <= listed
    assert {field.name for field in fields(module.Settings)} == module._KEYS.keys()


def test_the_readme_has_the_defaults_of_flights():
    defaults = {
        key: getattr(flight_settings.Settings(), name)
        for name, key in flight_settings._KEYS.items()
        if name not in ("data_dir", "rate_schedule")  # empty: nothing to show
    }
    for key, default in defaults.items():
        (row,) = re.findall(rf"^\| `{re.escape(key)}` \| `?([^|`]+?)`? \|", README, flags=re.MULTILINE)
        assert row == (f"{default:g}" if isinstance(default, float) else str(default).lower()), key
    assert load_topology("flights").config["flights.rate.tps"] == flight_settings.Settings().rate_tps
