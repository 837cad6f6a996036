package io.stormpilot.scheduler;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.stormpilot.Contract;
import io.stormpilot.Hostile;
import io.stormpilot.scheduler.message.ConfiguredModes;
import io.stormpilot.scheduler.message.Payload.MessageException;
import io.stormpilot.scheduler.message.PlanEntry;
import io.stormpilot.scheduler.message.Settings;
import io.stormpilot.scheduler.message.Status;
import io.stormpilot.scheduler.state.PlacementParser;
import io.stormpilot.scheduler.zookeeper.SnapshotDecoder;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.stream.Stream;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.ShrinkingMode;
import net.jqwik.api.lifecycle.AfterContainer;
import org.junit.jupiter.api.Test;

/**
 * Every decoder of what lies in ZooKeeper: whatever it reads, it answers with a value or a {@code
 * MessageException}, and soon. {@code -Dfuzz.tries=10000} reads more; an input that breaks one is
 * kept in {@code tests/data/fuzz/java} and read again in every run.
 */
class DecoderFuzzTest {

  private static final Path CASES = Path.of("..", "..", "tests", "data", "fuzz", "java");

  /** CPU, not time: other work on the machine does not count. */
  private static final long MAX_CPU_NANOS = 5_000_000_000L;

  private interface Decoder {
    Object read(byte[] data) throws MessageException;
  }

  private static void check(Decoder decoder, byte[] data) {
    long before = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
    try {
      decoder.read(data);
    } catch (MessageException e) {
      assertTrue(e.getMessage() != null && e.reason().rejects(), "a reason: " + e);
    }
    long took = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() - before;
    assertTrue(took < MAX_CPU_NANOS, "CPU ms: " + took / 1_000_000);
  }

  private static PlanEntry plan(byte[] data) {
    PlanEntry entry = PlanEntry.read("flights-1-1763690000", data);
    assertTrue((entry.plan() == null) != (entry.rejection() == null));
    return entry;
  }

  /** By kind: how many inputs were read, and the time that took in nanoseconds. */
  private static final Map<String, long[]> READ = new TreeMap<>();

  @AfterContainer
  static void tellHowManyWereRead() {
    READ.forEach(
        (kind, n) -> System.out.printf("%-24s%9d%10.1f s%n", "Nimbus: " + kind, n[0], n[1] / 1e9));
  }

  private static Object placement(byte[] data) throws MessageException {
    return PlacementParser.parse(data, 1_000);
  }

  private static final Map<String, Decoder> DECODERS =
      Map.of(
          "plan", DecoderFuzzTest::plan,
          "status", Status::read,
          "mode", Settings::mode,
          "controller", ConfiguredModes::read,
          "topology", DecoderFuzzTest::placement,
          "cluster", SnapshotDecoder::read);

  @Property(shrinking = ShrinkingMode.OFF)
  void plansAreReadOrRejected(@ForAll long seed) throws IOException {
    fuzz("plan", seed);
  }

  @Property(shrinking = ShrinkingMode.OFF)
  void statusesAreReadOrRejected(@ForAll long seed) throws IOException {
    fuzz("status", seed);
  }

  @Property(shrinking = ShrinkingMode.OFF)
  void settingsAreReadOrRejected(@ForAll long seed) throws IOException {
    fuzz("mode", seed);
  }

  @Property(shrinking = ShrinkingMode.OFF)
  void statesOfControllersAreReadOrRejected(@ForAll long seed) throws IOException {
    fuzz("controller", seed);
  }

  @Property(shrinking = ShrinkingMode.OFF)
  void placementsAreReadOrRejected(@ForAll long seed) throws IOException {
    fuzz("topology", seed);
  }

  @Property(shrinking = ShrinkingMode.OFF)
  void snapshotsAreReadOrRejected(@ForAll long seed) throws IOException {
    fuzz("cluster", seed);
  }

  @Test
  void whatBrokeADecoderOnceDoesNotAnyMore() throws IOException {
    try (Stream<Path> cases = Files.list(CASES)) {
      for (Path file : cases.sorted().toList()) {
        String name = file.getFileName().toString();
        check(DECODERS.get(name.substring(0, name.indexOf('-'))), Files.readAllBytes(file));
      }
    }
  }

  @Test
  void bombsAreRejectedByEveryDecoder() {
    for (byte[] bomb : Hostile.bombs()) {
      assertTrue(bomb.length < 900 * 1024, "fits into a znode: " + bomb.length);
      DECODERS.values().forEach(decoder -> check(decoder, bomb));
    }
  }

  /** What breaks the decoder is kept as a case. */
  private static void fuzz(String kind, long seed) throws IOException {
    byte[] data = Hostile.next(new Random(seed), Contract.bytes(kind + ".json"));
    long began = System.nanoTime();
    try {
      check(DECODERS.get(kind), data);
    } catch (RuntimeException | Error broken) {
      Files.write(CASES.resolve(kind + "-" + Long.toUnsignedString(seed)), data);
      throw broken;
    } finally {
      long[] read = READ.computeIfAbsent(kind, k -> new long[2]);
      read[0]++;
      read[1] += System.nanoTime() - began;
    }
  }
}
