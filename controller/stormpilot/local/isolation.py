"""Nodes of a local cluster that are like machines: a network namespace, a CPU quota and a limited link for each.

Every supervisor runs with its workers in a namespace of its own, with a virtual link to a bridge. So does the machine,
with the addresses of ZooKeeper and Nimbus. The bridge has a namespace too: in that of the machine its packets would
pass the machine's firewall, which drops them where Docker runs. All names derive from the cluster's folder, so that
what a crash left behind is found and removed without any record.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Collection, Sequence
from pathlib import Path

import msgspec

from stormpilot.errors import RefusedError, UnreachableError
from stormpilot.local import cgroups
from stormpilot.local.spec import ClusterSpec, NodeSpec

NETWORK = "198.18"
"""Addresses for tests between networks (RFC 2544); no host on the Internet has one."""
BRIDGE_HOST = 1
BRIDGE, TO_HOST = "bridge", "host"
"""Links in the bridge's namespace: the bridge itself, and its end of the link to the machine."""
TOOLS = ("ip", "tc", "nsenter")
BURST_S = 0.01
LEAST_BURST_KB = 32
"""A bucket has to hold some packets, and what a link sends between two ticks of the kernel's clock."""
QUEUE_MS = 50
ENTER = 'echo $$ > "$1" && net=$2 && shift 2 && exec nsenter --net="$net" -- "$@"'
"""The shell enters the control group, then the network, then becomes the program: its process id stays the same.

`ip netns exec` would mount `/sys` anew, and the program would not see its control group.
"""


class IsolatedNode(msgspec.Struct, frozen=True):
    """A node: the names of what the system has for it. `outer` is the link's end at the bridge, `inner` the node's."""

    supervisor: str
    namespace: str
    outer: str
    inner: str
    address: str
    group: Path
    wanted: NodeSpec

    @property
    def namespace_file(self) -> Path:
        """Namespaces that `nsenter` opens."""
        return Path("/run/netns") / self.namespace


class Isolation(msgspec.Struct, frozen=True):
    """The nodes of a cluster: `switch` is the namespace of the bridge, `host` the machine's end of its link to it, and
    `addresses` are the machine's."""

    token: str
    switch: str
    host: str
    addresses: list[str]
    control: cgroups.CpuControl
    nodes: list[IsolatedNode]


def token_of(directory: Path) -> str:
    """Common prefix of all names of a cluster's folder: 8 characters, since names of links have at most 15."""
    return hashlib.sha256(str(directory).encode()).hexdigest()[:8]


def check(spec: ClusterSpec) -> None:
    """Refuse nodes that this user or this machine cannot have, before anything is made."""
    if os.geteuid() != 0:
        raise RefusedError("--isolate needs root: it makes network namespaces, links and control groups")
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        raise UnreachableError(f"--isolate needs {', '.join(missing)} (Debian: apt-get install iproute2 util-linux)")
    if any(node.delay_ms for node in spec.nodes) and not _has_netem():
        raise UnreachableError("--node delay_ms: this kernel has no netem (modprobe sch_netem), leave the delay out")


def free_network(token: str, in_use: Collection[str]) -> str:
    """The first three numbers of addresses that no interface of this machine has: by the token, or the next free."""
    first = int(token, 16) % 256
    for n in (*range(first, 256), *range(first)):
        network = f"{NETWORK}.{n}"
        if not any(address.startswith(f"{network}.") for address in in_use):
            return network
    raise UnreachableError(f"all networks of {NETWORK}.0.0/16 are in use on this machine")


def designed(
    directory: Path,
    spec: ClusterSpec,
    supervisors: Sequence[tuple[str, str, float]],
    addresses: Sequence[str],
    control: cgroups.CpuControl,
) -> Isolation:
    """The plan of the network, without making it.

    Parameters
    ----------
    supervisors
        Id, address and cores of every supervisor.
    addresses
        Those of the daemons that run outside of nodes.
    """
    token = token_of(directory)
    nodes = []
    for n, (supervisor, address, cores) in enumerate(supervisors, start=1):
        wanted = spec.nodes[n - 1] if spec.nodes else NodeSpec()
        nodes.append(
            IsolatedNode(
                supervisor=supervisor,
                namespace=f"sp-{token}-{n:02d}",
                outer=f"spo{token}-{n:02d}",
                inner=f"spi{token}-{n:02d}",
                address=address,
                group=control.folder / f"stormpilot-{token}-{n:02d}",
                wanted=msgspec.structs.replace(wanted, cores=cores),
            )
        )
    return Isolation(token, f"sp-{token}-00", f"sph{token}", list(addresses), control, nodes)


def commands(isolation: Isolation) -> list[list[str]]:
    """Commands that make the network, in order."""
    switch, host = isolation.switch, isolation.host
    at_switch = ["ip", "-n", switch, "link"]
    made = [
        ["ip", "netns", "add", switch],
        [*at_switch, "add", BRIDGE, "type", "bridge"],
        [*at_switch, "set", BRIDGE, "up"],
        ["ip", "link", "add", host, "type", "veth", "peer", "name", TO_HOST, "netns", switch],
        [*at_switch, "set", TO_HOST, "master", BRIDGE, "up"],
    ]
    made += [["ip", "address", "add", f"{address}/24", "dev", host] for address in isolation.addresses]
    made += [["ip", "link", "set", host, "up"]]
    for node in isolation.nodes:
        inside = ["ip", "-n", node.namespace]
        made += [
            ["ip", "netns", "add", node.namespace],
            [*at_switch, "add", node.outer, "type", "veth", "peer", "name", node.inner, "netns", node.namespace],
            [*at_switch, "set", node.outer, "master", BRIDGE, "up"],
            [*inside, "address", "add", f"{node.address}/24", "dev", node.inner],
            [*inside, "link", "set", node.inner, "up"],
            [*inside, "link", "set", "lo", "up"],
        ]
        made += _limits(["tc", "-n", switch], node.outer, node.wanted)
        made += _limits(["tc", "-n", node.namespace], node.inner, node.wanted)
    return made


def _limits(tc: list[str], link: str, wanted: NodeSpec) -> list[list[str]]:
    """Bandwidth and delay of what leaves by this end of a link."""
    made, at = [], ["root", "handle", "1:"]
    if wanted.mbit is not None:
        burst_kb = max(LEAST_BURST_KB, round(wanted.mbit * 1000 / 8 * BURST_S))
        rate = ["rate", f"{round(wanted.mbit * 1000)}kbit", "burst", f"{burst_kb}kb", "latency", f"{QUEUE_MS}ms"]
        made.append([*tc, "qdisc", "add", "dev", link, *at, "tbf", *rate])
        at = ["parent", "1:1", "handle", "10:"]
    if wanted.delay_ms:
        made.append([*tc, "qdisc", "add", "dev", link, *at, "netem", "delay", f"{wanted.delay_ms:g}ms"])
    return made


def entered(argv: Sequence[str], node: IsolatedNode) -> list[str]:
    """The command line that runs a program in a node."""
    return ["/bin/sh", "-c", ENTER, "enter-node", str(node.group / "cgroup.procs"), str(node.namespace_file), *argv]


def create(isolation: Isolation) -> None:
    """Make the nodes; nothing is left of them if that fails."""
    try:
        for command in commands(isolation):
            _run(command)
        for node in isolation.nodes:
            assert node.wanted.cores is not None
            cgroups.create(isolation.control, node.group.name, node.wanted.cores)
    except BaseException:
        remove(isolation.token)
        raise


def remove(token: str) -> None:
    """Remove all that carries this token, whoever left it; the processes in it must have ended."""
    for namespace in _names(["ip", "netns", "list"], f"sp-{token}-"):
        _run(["ip", "netns", "delete", namespace])
    for link in _names(["ip", "-brief", "link"], f"sph{token}"):  # it goes with the namespace, a little later
        subprocess.run(["ip", "link", "delete", link], check=False, capture_output=True)
    cgroups.remove(cgroups.named(f"stormpilot-{token}-"))


def left(token: str) -> list[str]:
    """Names of what carries this token on this machine."""
    found = _names(["ip", "netns", "list"], f"sp-{token}-") + _names(["ip", "-brief", "link"], f"sph{token}")
    return found + [p.name for p in cgroups.named(f"stormpilot-{token}-")]


def addresses_in_use() -> list[str]:
    """IPv4 addresses of this machine."""
    return [line.split()[3] for line in _output(["ip", "-4", "-oneline", "address"]).splitlines()]


def _has_netem() -> bool:
    """Whether the kernel has it: tried in a namespace that goes with the command."""
    tried = ["unshare", "--net", "tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"]
    return subprocess.run(tried, check=False, capture_output=True).returncode == 0


def _names(command: list[str], *beginnings: str) -> list[str]:
    """First words of a command's lines that begin so, without what stands behind an @."""
    words = (line.split()[0].partition("@")[0] for line in _output(command).splitlines() if line.strip())
    return [word for word in words if word.startswith(beginnings)]


def _output(command: list[str]) -> str:
    return _run(command).stdout


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise UnreachableError(f"isolated nodes: `{' '.join(command)}` failed: {done.stderr.strip()}")
    return done
