"""The host as a task measures it: clock of its cores, their number, and memory, within quotas."""

from __future__ import annotations

import os
from pathlib import Path

from stormpilot.instrument.reporting import cpu_mhz, host_cores, host_memory_mb, resident_mb


def test_mhz_is_that_of_the_fastest_core(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\ncpu MHz\t\t: 1200.5\nprocessor\t: 1\ncpu MHz\t\t: 2900.000\n")
    assert cpu_mhz(cpuinfo, tmp_path) == 2900.0
    cpuinfo.write_text("processor\t: 0\nBogoMIPS\t: 50.00\n")
    assert cpu_mhz(cpuinfo, tmp_path) is None
    assert cpu_mhz(tmp_path / "absent", tmp_path) is None


def test_mhz_are_the_most_that_a_core_may_reach_whatever_it_does_now(tmp_path: Path) -> None:
    """Bare metal: an idle machine tells 800 MHz in /proc/cpuinfo, a busy one of the same kind 3,700."""
    cpuinfo, cpufreq = tmp_path / "cpuinfo", tmp_path / "cpufreq"
    cpuinfo.write_text("processor\t: 0\ncpu MHz\t\t: 800.012\n")
    for policy, khz in (("policy0", "3700000\n"), ("policy4", "2600000\n")):
        (cpufreq / policy).mkdir(parents=True)
        (cpufreq / policy / "cpuinfo_max_freq").write_text(khz)
    assert cpu_mhz(cpuinfo, cpufreq) == 3700.0
    for policy in cpufreq.iterdir():
        (policy / "cpuinfo_max_freq").write_text("<unknown>\n")
    assert cpu_mhz(cpuinfo, cpufreq) == 800.012


def test_a_machine_that_tells_0_mhz_tells_none(tmp_path: Path) -> None:
    """Some virtual machines do; a report of a core with 0 MHz would be refused as a whole."""
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\ncpu MHz\t\t: 0.000\nprocessor\t: 1\ncpu MHz\t\t: 0.000\n")
    assert cpu_mhz(cpuinfo, tmp_path) is None


def test_cores_are_those_of_the_quota_where_it_is_less(tmp_path: Path) -> None:
    own = len(os.sched_getaffinity(0))
    assert host_cores(tmp_path) == own
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert host_cores(tmp_path) == own
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    assert host_cores(tmp_path) == 0.5
    (tmp_path / "cpu.max").write_text("99900000 100000\n")
    assert host_cores(tmp_path) == own
    v1 = tmp_path / "v1"
    (v1 / "cpu").mkdir(parents=True)
    for name, value in (("quota", 25_000), ("period", 100_000)):
        (v1 / "cpu" / f"cpu.cfs_{name}_us").write_text(f"{value}\n")
    assert host_cores(v1) == 0.25
    (v1 / "cpu" / "cpu.cfs_quota_us").write_text("-1\n")
    assert host_cores(v1) == own


def test_memory_is_the_limit_of_the_cgroup_where_it_is_less(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    assert host_memory_mb(tmp_path, meminfo) is None
    meminfo.write_text("MemTotal:       33554432 kB\nMemFree: 1 kB\n")
    assert host_memory_mb(tmp_path, meminfo) == 32_768.0
    (tmp_path / "memory.max").write_text("max\n")
    assert host_memory_mb(tmp_path, meminfo) == 32_768.0
    (tmp_path / "memory.max").write_text(f"{2**31}\n")
    assert host_memory_mb(tmp_path, meminfo) == 2048.0
    v1 = tmp_path / "v1"
    (v1 / "memory").mkdir(parents=True)
    (v1 / "memory" / "memory.limit_in_bytes").write_text(f"{2**30}\n")
    assert host_memory_mb(v1, meminfo) == 1024.0


def test_limits_of_a_service_are_found_below_the_root_but_not_those_of_a_worker(tmp_path: Path) -> None:
    """A supervisor that systemd limits: the root of a machine's cgroups has no limits."""
    meminfo, own = tmp_path / "meminfo", tmp_path / "cgroup"
    meminfo.write_text("MemTotal:       33554432 kB\n")
    service = Path("system.slice/storm-supervisor.service")
    worker = service / "0f2a9b31-65d1-4c5e-9d0e-3b1f6a7c8d90"
    v2, v1 = tmp_path / "v2", tmp_path / "v1"
    for folder, cores, mb in ((service, 0.5, 2048), (worker, 0.125, 512)):
        (v2 / folder).mkdir(parents=True)
        (v2 / folder / "cpu.max").write_text(f"{cores * 100_000:.0f} 100000\n")
        (v2 / folder / "memory.max").write_text(f"{mb * 2**20}\n")
        for controller in ("cpu", "memory"):
            (v1 / controller / folder).mkdir(parents=True)
        (v1 / "cpu" / folder / "cpu.cfs_quota_us").write_text(f"{cores * 100_000:.0f}\n")
        (v1 / "cpu" / folder / "cpu.cfs_period_us").write_text("100000\n")
        (v1 / "memory" / folder / "memory.limit_in_bytes").write_text(f"{mb * 2**20}\n")
    own.write_text(f"0::/{worker}\n")
    assert (host_cores(v2, own), host_memory_mb(v2, meminfo, own)) == (0.5, 2048.0)
    own.write_text(f"5:cpu,cpuacct:/{worker}\n4:memory:/{worker}\n0::/\n")
    assert (host_cores(v1, own), host_memory_mb(v1, meminfo, own)) == (0.5, 2048.0)
    own.write_text("no cgroup\n")
    assert host_memory_mb(v2, meminfo, own) == 32_768.0


def test_resident_memory_is_what_the_kernel_says(tmp_path: Path) -> None:
    status = tmp_path / "status"
    assert resident_mb(status) is None
    status.write_text("VmSize:\t  99999 kB\nVmRSS:\t    2560 kB\n")
    assert resident_mb(status) == 2.5
    assert (resident_mb() or 0) > 1
