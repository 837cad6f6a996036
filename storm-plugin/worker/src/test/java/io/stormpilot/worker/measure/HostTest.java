package io.stormpilot.worker.measure;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Capacity of a host, also where the worker itself may have less of it. */
class HostTest {

  private static final String OF_A_WORKER = "0f0e0d0c-1111-2222-3333-444455556666";

  @TempDir Path proc;
  @TempDir Path cgroups;
  @TempDir Path cpufreq;

  @BeforeEach
  void machine() throws IOException {
    write(proc, "self/status", "Name:\tjava\nCpus_allowed_list:\t0-5,8,9\n");
    write(proc, "meminfo", "MemTotal:       16777216 kB\nMemFree:  1 kB\n");
  }

  private static void write(Path root, String file, String text) throws IOException {
    Files.createDirectories(root.resolve(file).getParent());
    Files.writeString(root.resolve(file), text);
  }

  private Host host() {
    return new Host(proc, cgroups, cpufreq);
  }

  @Test
  void isTheMachineWhateverTheJvmMayUse() {
    assertEquals(8, host().cores());
    assertEquals(16384.0, host().memoryMb());
  }

  @Test
  void clockIsThatOfTheFastestCore() throws IOException {
    assertNull(host().mhz());
    write(proc, "cpuinfo", "cpu MHz\t\t: 2100.5\nmodel name : x\ncpu MHz : 2900.0\n");
    assertEquals(2900.0, host().mhz());
    write(proc, "cpuinfo", "cpu MHz : 0.000\n");
    assertNull(host().mhz(), "some virtual machines tell that");
  }

  /** Bare metal: an idle machine tells 800 MHz in its cpuinfo, a busy one of its kind 3,700. */
  @Test
  void clockIsTheMostThatACoreMayReachWhateverItDoesNow() throws IOException {
    write(proc, "cpuinfo", "cpu MHz : 800.012\n");
    write(cpufreq, "policy0/cpuinfo_max_freq", "3700000\n");
    write(cpufreq, "policy4/cpuinfo_max_freq", "2600000\n");
    assertEquals(3700.0, host().mhz());
    write(cpufreq, "policy0/cpuinfo_max_freq", "<unknown>\n");
    write(cpufreq, "policy4/cpuinfo_max_freq", "<unknown>\n");
    assertEquals(800.012, host().mhz());
  }

  @Test
  void limitsOfItsServiceCountAndThoseOfAWorkerDoNot() throws IOException {
    write(proc, "self/cgroup", "0::/system.slice/storm.service/" + OF_A_WORKER + "\n");
    write(cgroups, "system.slice/cpu.max", "max 100000\n");
    write(cgroups, "system.slice/storm.service/cpu.max", "350000 100000\n");
    write(cgroups, "system.slice/storm.service/memory.max", "4294967296\n");
    write(cgroups, "system.slice/storm.service/" + OF_A_WORKER + "/cpu.max", "20000 100000\n");
    write(cgroups, "system.slice/storm.service/" + OF_A_WORKER + "/memory.max", "1048576\n");
    assertEquals(3.5, host().cores());
    assertEquals(4096.0, host().memoryMb());
  }

  @Test
  void controllersOfTheFirstVersionHaveFoldersOfTheirOwn() throws IOException {
    write(proc, "self/cgroup", "4:cpu,cpuacct:/storm\n3:memory:/storm\n0::/\n");
    write(cgroups, "cpu/storm/cpu.cfs_quota_us", "200000\n");
    write(cgroups, "cpu/storm/cpu.cfs_period_us", "100000\n");
    write(cgroups, "memory/storm/memory.limit_in_bytes", "2147483648\n");
    assertEquals(2.0, host().cores());
    assertEquals(2048.0, host().memoryMb());
  }

  @Test
  void whatNobodySaysAnythingOfIsWhatTheJvmTells() throws IOException {
    Host host = new Host(proc.resolve("none"), cgroups.resolve("none"), cpufreq);
    assertEquals(Runtime.getRuntime().availableProcessors(), host.cores());
    assertTrue(host.memoryMb() > 0);
  }
}
