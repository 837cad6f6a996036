package io.stormpilot.worker.measure;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * What Linux tells in {@code /proc} of this process's threads and of the processes that they
 * started. Elsewhere, and where a file is not there, it knows nothing.
 */
public final class Proc {

  /** Linux shows CPU times in hundredths of a second to programs, whatever its own clock is. */
  private static final long NANOS_PER_TICK = 10_000_000L;

  private static final int COMM_BYTES = 15;

  /** A child process; the start tells a process from a later one of the same id. */
  public record Child(long pid, long startTicks) {}

  private final Path root;

  public Proc() {
    this(Path.of("/proc"));
  }

  Proc(Path root) {
    this.root = root;
  }

  /**
   * The processes that a thread of this JVM started and that live; empty where the thread is not
   * found or several have its name: the kernel knows of the first 15 bytes of it.
   */
  public List<Child> childrenOf(String threadName) {
    byte[] comm = comm(threadName);
    Path found = null;
    try (DirectoryStream<Path> threads = Files.newDirectoryStream(root.resolve("self/task"))) {
      for (Path thread : threads) {
        if (Arrays.equals(comm, readComm(thread))) {
          if (found != null) {
            return List.of();
          }
          found = thread;
        }
      }
      return found == null ? List.of() : children(found);
    } catch (IOException | RuntimeException e) {
      return List.of();
    }
  }

  /** CPU of a process and of its children that ended; -1 where it is gone. */
  public long cpuNanos(Child child) {
    long[] stat = stat(child.pid());
    return stat == null || stat[1] != child.startTicks() ? -1 : stat[0] * NANOS_PER_TICK;
  }

  /** MHz of the fastest core as the kernel tells it now, or null. */
  public Double mhz() {
    double fastest = 0;
    try {
      for (String line : Files.readAllLines(root.resolve("cpuinfo"), StandardCharsets.ISO_8859_1)) {
        int colon = line.indexOf(':');
        if (colon > 0 && line.substring(0, colon).strip().equals("cpu MHz")) {
          fastest = Math.max(fastest, Double.parseDouble(line.substring(colon + 1).strip()));
        }
      }
    } catch (IOException | RuntimeException e) {
      return null;
    }
    return fastest > 0 ? fastest : null;
  }

  private List<Child> children(Path thread) throws IOException {
    List<Child> found = new ArrayList<>();
    String text = Files.readString(thread.resolve("children"), StandardCharsets.US_ASCII).strip();
    for (String pid : text.isEmpty() ? new String[0] : text.split("\\s+")) {
      long[] stat = stat(Long.parseLong(pid));
      if (stat != null) {
        found.add(new Child(Long.parseLong(pid), stat[1]));
      }
    }
    return found;
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

  private static byte[] comm(String threadName) {
    byte[] name = threadName.getBytes(StandardCharsets.UTF_8);
    return name.length <= COMM_BYTES ? name : Arrays.copyOf(name, COMM_BYTES);
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
