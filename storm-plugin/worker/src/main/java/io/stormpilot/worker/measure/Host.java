package io.stormpilot.worker.measure;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;

/**
 * Cores, their clock, and memory of the host, or of the service or container in which its
 * supervisor runs (least limit of its cgroups, v2 or v1). Not what this worker may have: {@code
 * -XX:ActiveProcessorCount} and the cgroups that Storm makes for each worker, named by its id, say
 * nothing of the host. Where there is no {@code /proc}, what the JVM tells.
 */
public final class Host {

  private static final Pattern OF_A_WORKER =
      Pattern.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}");
  private static final double BYTES_PER_MIB = 1024.0 * 1024;
  private static final double KIB_PER_MIB = 1024;
  private static final double KHZ_PER_MHZ = 1000;

  private final Path proc;
  private final Path cgroups;
  private final Path cpufreq;

  public Host() {
    this(Path.of("/proc"), Path.of("/sys/fs/cgroup"), Path.of("/sys/devices/system/cpu/cpufreq"));
  }

  Host(Path proc, Path cgroups, Path cpufreq) {
    this.proc = proc;
    this.cgroups = cgroups;
    this.cpufreq = cpufreq;
  }

  /** Cores. */
  public double cores() {
    String allowed = field("self/status", "Cpus_allowed_list:");
    double cores = allowed == null ? 0 : count(allowed);
    if (cores <= 0) {
      cores = Runtime.getRuntime().availableProcessors();
    }
    for (Path cgroup : cgroups("cpu")) {
      String both = text(cgroup.resolve("cpu.max"));
      String[] parts = both == null ? new String[] {"", ""} : both.split("\\s+");
      if (both == null) {
        parts[0] = text(cgroup.resolve("cpu.cfs_quota_us"));
        parts[1] = text(cgroup.resolve("cpu.cfs_period_us"));
      }
      double quota = parts.length < 2 ? -1 : number(parts[0]);
      double period = parts.length < 2 ? -1 : number(parts[1]);
      if (quota > 0 && period > 0) {
        cores = Math.min(cores, quota / period);
      }
    }
    return cores;
  }

  /**
   * MHz of the fastest core, or null. The most that it may reach, where the kernel governs clocks
   * (mostly on bare metal): {@code cpuinfo} tells the clock of the moment there, less on an idle
   * machine than on a busy one of the same kind.
   */
  public Double mhz() {
    double fastest = 0;
    try (DirectoryStream<Path> policies = Files.newDirectoryStream(cpufreq, "policy*")) {
      for (Path policy : policies) {
        double khz = number(text(policy.resolve("cpuinfo_max_freq")));
        fastest = Math.max(fastest, khz / KHZ_PER_MHZ);
      }
    } catch (IOException | RuntimeException e) {
      fastest = 0; // nothing governs clocks here
    }
    return fastest > 0 ? (Double) fastest : clockOfTheMoment();
  }

  private Double clockOfTheMoment() {
    double fastest = 0;
    for (String line : lines(proc.resolve("cpuinfo"))) {
      String[] parts = line.split(":", 2);
      String mhz = parts[parts.length - 1].strip();
      if (parts[0].strip().equals("cpu MHz") && mhz.matches("\\d{1,9}(\\.\\d{1,9})?")) {
        fastest = Math.max(fastest, Double.parseDouble(mhz));
      }
    }
    return fastest > 0 ? (Double) fastest : null;
  }

  /** Memory, MB; null where nothing tells. */
  public Double memoryMb() {
    String total = field("meminfo", "MemTotal:");
    double kib = total == null ? -1 : number(total.split("\\s+")[0]);
    Double most = kib > 0 ? (Double) (kib / KIB_PER_MIB) : ofJvm();
    for (Path cgroup : cgroups("memory")) {
      for (String file : List.of("memory.max", "memory.limit_in_bytes")) {
        double limit = number(text(cgroup.resolve(file)));
        if (limit > 0 && (most == null || limit / BYTES_PER_MIB < most)) {
          most = limit / BYTES_PER_MIB;
        }
      }
    }
    return most == null ? null : Math.round(most * 10) / 10.0;
  }

  @SuppressWarnings("deprecation") // its new name, getTotalMemorySize, came with Java 14
  private static Double ofJvm() {
    return ManagementFactory.getOperatingSystemMXBean()
            instanceof com.sun.management.OperatingSystemMXBean system
        ? (Double) (system.getTotalPhysicalMemorySize() / BYTES_PER_MIB)
        : null;
  }

  /** Folders of the cgroups that limit this process by v2, or by a controller of v1. */
  private List<Path> cgroups(String controller) {
    Map<String, String> paths = new HashMap<>();
    for (String line : lines(proc.resolve("self/cgroup"))) {
      String[] parts = line.split(":", 3);
      for (String name : parts.length < 3 ? new String[0] : parts[1].split(",")) {
        paths.put(name, parts[2]);
      }
    }
    List<Path> folders = new ArrayList<>(List.of(cgroups, cgroups.resolve(controller)));
    below(cgroups, paths.get(""), folders);
    below(cgroups.resolve(controller), paths.get(controller), folders);
    return folders;
  }

  private static void below(Path top, String path, List<Path> folders) {
    Path folder = top;
    for (String part : path == null ? new String[0] : path.split("/")) {
      if (OF_A_WORKER.matcher(part).matches()) {
        return;
      }
      if (!part.isEmpty() && !part.equals("..")) {
        folder = folder.resolve(part);
        folders.add(folder);
      }
    }
  }

  /** How many are listed: {@code 0-3,8}. */
  private static int count(String list) {
    int found = 0;
    for (String range : list.split(",")) {
      String[] ends = range.strip().split("-");
      double first = number(ends[0]);
      double last = number(ends[ends.length - 1]);
      found += first < 0 || last < first ? 0 : (int) (last - first) + 1;
    }
    return found;
  }

  private static double number(String text) {
    return text != null && text.matches("\\d{1,18}") ? Double.parseDouble(text) : -1;
  }

  private String field(String file, String name) {
    for (String line : lines(proc.resolve(file))) {
      if (line.startsWith(name)) {
        return line.substring(name.length()).strip();
      }
    }
    return null;
  }

  private static String text(Path file) {
    List<String> lines = lines(file);
    return lines.isEmpty() ? null : lines.get(0).strip();
  }

  private static List<String> lines(Path file) {
    try {
      return Files.readAllLines(file, StandardCharsets.ISO_8859_1);
    } catch (IOException | RuntimeException e) {
      return List.of(); // not there, or this is not Linux
    }
  }
}
