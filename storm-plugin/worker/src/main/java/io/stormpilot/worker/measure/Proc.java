package io.stormpilot.worker.measure;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * What Linux tells in {@code /proc} of this process's threads and of the processes that they
 * started. Elsewhere, and where a file is not there, it knows nothing.
 */
public final class Proc {

  /** Linux shows CPU times in hundredths of a second to programs, whatever its own clock is. */
  private static final long NANOS_PER_TICK = 10_000_000L;

  private static final double KIB_PER_MIB = 1024;
  private static final int COMM_BYTES = 15;
  private static final int MAX_READINGS = 4;
  private static final int MAX_PROCESSES = 1000;

  /** A child process; the start tells a process from a later one of the same id. */
  public record Child(long pid, long startTicks) {}

  private final Path root;
  private Map<String, List<Long>> comms;

  public Proc() {
    this(Path.of("/proc"));
  }

  Proc(Path root) {
    this.root = root;
  }

  /**
   * The processes that a thread of this JVM started and that live; empty where another thread may
   * have started them: the kernel knows the first 15 bytes of a thread's name.
   *
   * <p>A thread bears the name of the thread that created it until it sets its own, so several may
   * have the name for a moment (one that starts a process also starts a thread that waits for it).
   * Such a thread has no children yet: only two threads of one name that both have children are
   * ambiguous.
   */
  public List<Child> childrenOf(String threadName) {
    List<Child> found = List.of();
    try {
      for (long thread : threadsOf(threadName)) {
        List<Child> children = children(root.resolve("self/task/" + thread));
        if (!children.isEmpty() && !found.isEmpty()) {
          return List.of();
        }
        found = children.isEmpty() ? found : children;
      }
      return found;
    } catch (IOException | RuntimeException e) {
      return List.of();
    }
  }

  /**
   * The kernel's id of the thread of this JVM with that name; -1 where none has it. Of several the
   * first: threads of native libraries keep the name of the one that created them.
   */
  public long threadId(String threadName) {
    return threadsOf(threadName).stream().mapToLong(Long::longValue).min().orElse(-1);
  }

  /** See which threads there are, once for all that is asked until this is called again. */
  public void look() {
    comms = null;
  }

  private List<Long> threadsOf(String threadName) {
    if (comms == null) {
      Map<String, List<Long>> seen = new LinkedHashMap<>();
      try (DirectoryStream<Path> threads = Files.newDirectoryStream(root.resolve("self/task"))) {
        for (Path thread : threads) {
          String comm = new String(readComm(thread), StandardCharsets.ISO_8859_1);
          long id = Long.parseLong(thread.getFileName().toString());
          seen.computeIfAbsent(comm, name -> new ArrayList<>()).add(id);
        }
      } catch (IOException | RuntimeException e) {
        return List.of(); // this is not Linux
      }
      comms = seen;
    }
    byte[] name = threadName.getBytes(StandardCharsets.UTF_8);
    if (name.length <= COMM_BYTES) {
      return comms.getOrDefault(new String(name, StandardCharsets.ISO_8859_1), List.of());
    }
    List<Long> found = new ArrayList<>();
    comms.forEach((comm, ids) -> found.addAll(names(comm, name) ? ids : List.of()));
    return found;
  }

  /** How often a thread of this JVM gave the processor away to wait; -1 where it is gone. */
  public long waits(long threadId) {
    String number = field("self/task/" + threadId + "/status", "voluntary_ctxt_switches:");
    return number == null ? -1 : Long.parseLong(number);
  }

  /** CPU of a process and of what it started; -1 where it is gone. */
  public long cpuNanos(Child child) {
    Set<Long> processes = withDescendants(child);
    long ticks = 0;
    for (long pid : processes) {
      long[] own = stat(pid);
      ticks += own == null ? 0 : own[0];
    }
    return processes.isEmpty() ? -1 : ticks * NANOS_PER_TICK;
  }

  /**
   * What a process and what it started hold in memory, MB; 0 where it is gone. Where there are
   * several, pages that they share count once, if the kernel tells.
   */
  public double memoryMb(Child child) {
    Set<Long> processes = withDescendants(child);
    double sum = 0;
    for (long pid : processes) {
      String kib = processes.size() > 1 ? field(pid + "/smaps_rollup", "Pss:") : null;
      Double held =
          kib == null ? residentMb(Long.toString(pid)) : Long.parseLong(kib) / KIB_PER_MIB;
      sum += held == null ? 0 : held;
    }
    return sum;
  }

  /** Ids of a process and of all that it started; empty where it is gone. */
  private Set<Long> withDescendants(Child child) {
    long[] stat = stat(child.pid());
    if (stat == null || stat[1] != child.startTicks()) {
      return Set.of();
    }
    Set<Long> found = new LinkedHashSet<>(Set.of(child.pid()));
    List<Long> parents = List.of(child.pid());
    while (!parents.isEmpty() && found.size() < MAX_PROCESSES) {
      List<Long> started = new ArrayList<>();
      for (long parent : parents) {
        for (Child one : childrenOf(parent)) {
          if (found.add(one.pid())) {
            started.add(one.pid());
          }
        }
      }
      parents = started;
    }
    return found;
  }

  /** The processes that one started and that live. */
  private List<Child> childrenOf(long pid) {
    List<Child> found = new ArrayList<>();
    try (DirectoryStream<Path> threads = Files.newDirectoryStream(root.resolve(pid + "/task"))) {
      for (Path thread : threads) {
        found.addAll(children(thread));
      }
    } catch (IOException | RuntimeException e) {
      return found; // it ended, or this kernel does not tell
    }
    return found;
  }

  /** What a process holds in memory (resident set), MB, or null. */
  public Double residentMb(String pid) {
    String kib = field(pid + "/status", "VmRSS:");
    return kib == null ? null : Long.parseLong(kib) / KIB_PER_MIB;
  }

  /** A whole number of a file of lines with a name each, or null. */
  private String field(String file, String name) {
    try {
      for (String line : Files.readAllLines(root.resolve(file), StandardCharsets.ISO_8859_1)) {
        if (line.startsWith(name)) {
          String number = line.substring(name.length()).strip().split("\\s+")[0];
          return number.matches("\\d{1,18}") ? number : null;
        }
      }
    } catch (IOException | RuntimeException e) {
      return null; // it ended meanwhile, or this is not Linux
    }
    return null;
  }

  /**
   * The children of a thread. The kernel may leave some out where one of them ends while the file
   * is read: all that several readings show count, until a reading shows nothing new.
   */
  private List<Child> children(Path thread) throws IOException {
    Map<Long, Child> found = new LinkedHashMap<>();
    for (int reading = 0; reading < MAX_READINGS; reading++) {
      int before = found.size();
      for (String pid : childIds(thread)) {
        long id = Long.parseLong(pid);
        long[] stat = found.containsKey(id) ? null : stat(id);
        if (stat != null) {
          found.put(id, new Child(id, stat[1]));
        }
      }
      if (reading > 0 && found.size() == before) {
        break;
      }
    }
    return List.copyOf(found.values());
  }

  private static String[] childIds(Path thread) throws IOException {
    try {
      String text = Files.readString(thread.resolve("children"), StandardCharsets.US_ASCII).strip();
      return text.isEmpty() ? new String[0] : text.split("\\s+");
    } catch (NoSuchFileException e) {
      return new String[0]; // the thread ended meanwhile
    }
  }

  /** {CPU, start} in ticks, or null where there is no such process. */
  private long[] stat(long pid) {
    try {
      String text = Files.readString(root.resolve(pid + "/stat"), StandardCharsets.ISO_8859_1);
      // The name of the program, in parentheses, may hold anything; the fields after it are
      // numbers.
      String[] fields = text.substring(text.lastIndexOf(')') + 2).strip().split(" ");
      long ticks = 0;
      for (int k = 11; k <= 14; k++) { // utime, stime, and those of children that ended
        ticks += Long.parseLong(fields[k]);
      }
      return new long[] {ticks, Long.parseLong(fields[19])};
    } catch (IOException | RuntimeException e) {
      return null;
    }
  }

  /**
   * Whether the kernel's name is that of a thread with a longer one: its first bytes or, as JVMs
   * newer than 25 have it, its begin and end with two dots between.
   */
  private static boolean names(String shortened, byte[] name) {
    String whole = new String(name, StandardCharsets.ISO_8859_1);
    if (shortened.equals(whole.substring(0, COMM_BYTES))) {
      return true;
    }
    int dots = shortened.indexOf("..");
    return dots > 0
        && dots + 2 < shortened.length()
        && whole.startsWith(shortened.substring(0, dots))
        && whole.endsWith(shortened.substring(dots + 2));
  }

  private static byte[] readComm(Path thread) {
    try {
      byte[] line = Files.readAllBytes(thread.resolve("comm"));
      boolean ended = line.length > 0 && line[line.length - 1] == '\n';
      return ended ? Arrays.copyOf(line, line.length - 1) : line;
    } catch (IOException e) {
      return new byte[0]; // the thread ended meanwhile
    }
  }
}
