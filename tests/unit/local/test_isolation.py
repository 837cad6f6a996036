"""Isolated nodes: what is asked for, and what would be run for it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from stormpilot.errors import RefusedError, UnreachableError, UsageError
from stormpilot.local import cgroups, isolation
from stormpilot.local.cgroups import CpuControl, cpu_control
from stormpilot.local.isolation import Isolation, commands, designed, entered, free_network, token_of
from stormpilot.local.spec import ClusterSpec, NodeSpec, parse_node

V1 = CpuControl(1, Path("/sys/fs/cgroup/cpu"))


def made(*nodes: NodeSpec) -> Isolation:
    spec = ClusterSpec(supervisors=len(nodes), isolate=True, nodes=nodes)
    supervisors = [(f"supervisor-{n:02d}", f"198.18.7.{10 + n}", 0.5) for n in range(1, 1 + len(nodes))]
    return designed(Path("/state/clusters/one"), spec, supervisors, ["198.18.7.1", "198.18.7.2"], V1)


def lines(built: Isolation) -> list[str]:
    return [" ".join(c) for c in commands(built)]


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("cores=0.5,mbit=50", NodeSpec(cores=0.5, mbit=50.0)),
        ("mbit=50, delay_ms=2", NodeSpec(mbit=50.0, delay_ms=2.0)),
        ("cores=2", NodeSpec(cores=2.0)),
    ],
)
def test_node_is_read(text: str, node: NodeSpec) -> None:
    assert parse_node(text) == node


@pytest.mark.parametrize("text", ["", "cores", "cores=", "cores=x", "cpu=1", "cores=1,cores=2", "cores=1;mbit=2"])
def test_node_that_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--node"):
        parse_node(text)


@pytest.mark.parametrize(
    "node", [{"cores": 0.0}, {"cores": -1.0}, {"mbit": 0.0}, {"delay_ms": -1.0}, {"cores": float("nan")}]
)
def test_node_has_something(node: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="expected a number from"):
        ClusterSpec(supervisors=1, isolate=True, nodes=(NodeSpec(**node),))


def test_nodes_are_as_many_as_supervisors_and_isolated() -> None:
    with pytest.raises(UsageError, match="one for each of 4 supervisors, got 1"):
        ClusterSpec(isolate=True, nodes=(NodeSpec(),))
    with pytest.raises(UsageError, match="--isolate"):
        ClusterSpec(supervisors=1, nodes=(NodeSpec(),))


def test_each_node_has_a_namespace_and_a_link_to_the_bridge() -> None:
    token = token_of(Path("/state/clusters/one"))
    said = lines(made(NodeSpec(), NodeSpec()))
    assert said[:8] == [
        f"ip netns add sp-{token}-00",
        f"ip -n sp-{token}-00 link add bridge type bridge",
        f"ip -n sp-{token}-00 link set bridge up",
        f"ip link add sph{token} type veth peer name host netns sp-{token}-00",
        f"ip -n sp-{token}-00 link set host master bridge up",
        f"ip address add 198.18.7.1/24 dev sph{token}",
        f"ip address add 198.18.7.2/24 dev sph{token}",
        f"ip link set sph{token} up",
    ]
    assert said[14:] == [
        f"ip netns add sp-{token}-02",
        f"ip -n sp-{token}-00 link add spo{token}-02 type veth peer name spi{token}-02 netns sp-{token}-02",
        f"ip -n sp-{token}-00 link set spo{token}-02 master bridge up",
        f"ip -n sp-{token}-02 address add 198.18.7.12/24 dev spi{token}-02",
        f"ip -n sp-{token}-02 link set spi{token}-02 up",
        f"ip -n sp-{token}-02 link set lo up",
    ]
    assert not [line for line in said if line.startswith("tc")], "no limit was asked for"


def test_names_fit_the_kernel_and_differ_between_clusters() -> None:
    one = made(NodeSpec()).nodes[0]
    assert all(len(name) <= 15 for name in (one.outer, one.inner))
    assert token_of(Path("/state/clusters/one")) != token_of(Path("/elsewhere/clusters/one"))


def test_link_is_limited_in_both_directions() -> None:
    node = (built := made(NodeSpec(mbit=50.0, delay_ms=2.5))).nodes[0]
    limits = [line for line in lines(built) if line.startswith("tc")]
    tbf = "root handle 1: tbf rate 50000kbit burst 62kb latency 50ms"
    assert limits == [
        f"tc -n {built.switch} qdisc add dev {node.outer} {tbf}",
        f"tc -n {built.switch} qdisc add dev {node.outer} parent 1:1 handle 10: netem delay 2.5ms",
        f"tc -n {node.namespace} qdisc add dev {node.inner} {tbf}",
        f"tc -n {node.namespace} qdisc add dev {node.inner} parent 1:1 handle 10: netem delay 2.5ms",
    ]


def test_delay_alone_needs_no_limit() -> None:
    built = made(NodeSpec(delay_ms=2.0))
    limits = [line for line in lines(built) if line.startswith(f"tc -n {built.switch}")]
    assert [line.partition(" root ")[2] for line in limits] == ["handle 1: netem delay 2ms"]


def test_program_enters_the_control_group_and_then_the_network() -> None:
    node = made(NodeSpec(cores=0.5)).nodes[0]
    argv = entered(["java", "-cp", "a:b", "Main"], node)
    assert argv[:2] == ["/bin/sh", "-c"]
    assert argv[4:6] == [str(node.group / "cgroup.procs"), f"/run/netns/{node.namespace}"]
    assert argv[6:] == ["java", "-cp", "a:b", "Main"]


def test_network_is_one_that_no_interface_has() -> None:
    assert free_network("00000107", []) == "198.18.7"
    assert free_network("00000107", ["198.18.7.1/24", "10.0.0.1/8", "198.18.8.1/24"]) == "198.18.9"
    assert free_network("000000ff", ["198.18.255.1/24"]) == "198.18.0"


def test_quota_is_that_of_the_version_that_has_the_controller() -> None:
    assert V1.quota(0.5)[:2] == [("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", "50000")]
    assert CpuControl(2, Path("/sys/fs/cgroup")).quota(1.5)[0] == ("cpu.max", "150000 100000")


def test_node_gets_its_quota_although_the_machine_is_busy() -> None:
    assert V1.quota(0.5)[2] == ("cpu.shares", "10240")
    assert CpuControl(2, Path("/sys/fs/cgroup")).quota(0.5)[1] == ("cpu.weight", "1000")


HYBRID = """\
31 23 0:28 / /sys/fs/cgroup ro,nosuid shared:9 - tmpfs tmpfs rw,mode=755
34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime shared:17 - cgroup cgroup rw,cpuset
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:16 master:2 - cgroup cgroup rw,cpu,cpuacct
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
UNIFIED = "41 23 0:38 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"


def boxed(*mounts: tuple[str, str]) -> str:
    """Mounts of the CPU controller (root and mount point), as containers see them without a namespace of groups."""
    line = "{} 31 0:29 {} {} ro,nosuid master:16 - cgroup cgroup rw,cpu,cpuacct\n"
    return "".join(line.format(32 + i, root, point) for i, (root, point) in enumerate(mounts))


CPU = "/sys/fs/cgroup/cpu,cpuacct"


@pytest.mark.parametrize(
    ("mounts", "own", "controllers", "found"),
    [
        (HYBRID, "3:cpuset:/\n2:cpu,cpuacct:/\n0::/\n", "", CpuControl(1, Path("/sys/fs/cgroup/cpu,cpuacct"))),
        (HYBRID, "2:cpu,cpuacct:/box\n", "", CpuControl(1, Path("/sys/fs/cgroup/cpu,cpuacct/box"))),
        (UNIFIED, "0::/user.slice\n", "cpuset cpu io", CpuControl(2, Path("/sys/fs/cgroup"))),
        (UNIFIED, "0::/\n", "cpuset io", None),
        ("22 28 0:21 / /proc rw - proc proc rw\n", "", "", None),
        (boxed(("/docker/1f", CPU)), "2:cpu,cpuacct:/docker/1f\n", "", CpuControl(1, Path(CPU))),
        (boxed(("/docker/1f", CPU)), "2:cpu,cpuacct:/docker/1f/sub\n", "", CpuControl(1, Path(CPU, "sub"))),
        (boxed(("/docker/1", CPU), ("/", "/host")), "2:cpu:/docker/1f\n", "", CpuControl(1, Path("/host/docker/1f"))),
        (boxed(("/", "/mnt/two\\040words")), "2:cpu:/\n", "", CpuControl(1, Path("/mnt/two words"))),
        (boxed(("/", CPU)), "", "", CpuControl(1, Path(CPU))),
    ],
)
def test_controller_is_found_where_it_is_mounted(
    mounts: str, own: str, controllers: str, found: CpuControl | None
) -> None:
    points = {line.split()[4]: controllers for line in mounts.splitlines() if " cgroup2 " in line}
    assert cpu_control(mounts, own, points) == found


@pytest.mark.parametrize(("own", "root"), [("/docker/1f", "/docker/2e"), ("/", "/../box"), ("/../a", "/")])
def test_a_group_that_no_mount_shows_is_named_with_what_to_do(own: str, root: str) -> None:
    with pytest.raises(UnreachableError, match=r"^[^\n]*--cgroupns=private[^\n]*$") as error:
        cpu_control(boxed((root, CPU)), f"2:cpu,cpuacct:{own}\n", {})
    assert f"{own} is not below {root}" in str(error.value)


def test_a_read_only_mount_is_named_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "mkdir", refused)
    with pytest.raises(UnreachableError, match=r"Read-only file system.*mount it writable"):
        cgroups.create(CpuControl(1, tmp_path), "stormpilot-1", 0.5)


@pytest.mark.parametrize("own", ["/", "/system.slice/other.service"])
def test_groups_are_found_and_removed_from_another_service_than_that_which_made_them(
    own: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proc, mounted = tmp_path / "proc", tmp_path / "cpu"
    proc.mkdir()
    (proc / "mountinfo").write_text(f"32 31 0:29 / {mounted} rw - cgroup cgroup rw,cpu,cpuacct\n")
    (proc / "cgroup").write_text(f"2:cpu,cpuacct:{own}\n")
    made = mounted / "system.slice" / "ci.service" / "stormpilot-0123abcd-01"
    for folder in (made, made.with_name("stormpilot-ffffffff-01"), mounted / "system.slice" / "other.service"):
        folder.mkdir(parents=True)
    monkeypatch.setattr(cgroups, "_SELF", proc)
    monkeypatch.setattr(isolation, "_output", lambda command: "")
    assert isolation.left("0123abcd") == [made.name]
    isolation.remove("0123abcd")
    assert [p.name for p in made.parent.iterdir()] == ["stormpilot-ffffffff-01"]


def test_who_may_not_is_told_so_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(RefusedError, match="--isolate needs root"):
        isolation.check(ClusterSpec(isolate=True))


def test_delay_that_the_kernel_cannot_make_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(isolation.shutil, "which", lambda tool: f"/sbin/{tool}")
    monkeypatch.setattr(isolation, "_has_netem", lambda: False)
    spec = ClusterSpec(supervisors=1, isolate=True, nodes=(NodeSpec(delay_ms=2.0),))
    with pytest.raises(UnreachableError, match="this kernel has no netem"):
        isolation.check(spec)
    isolation.check(ClusterSpec(supervisors=1, isolate=True, nodes=(NodeSpec(mbit=2.0),)))
