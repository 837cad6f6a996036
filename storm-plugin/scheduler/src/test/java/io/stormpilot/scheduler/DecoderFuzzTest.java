package io.stormpilot.scheduler;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.stormpilot.Contract;
import io.stormpilot.Hostile;
import io.stormpilot.scheduler.message.Payload.MessageException;
import io.stormpilot.scheduler.message.PlanEntry;
import io.stormpilot.scheduler.message.Settings;
import io.stormpilot.scheduler.message.Status;
import io.stormpilot.scheduler.state.PlacementParser;
import io.stormpilot.scheduler.zookeeper.SnapshotWriter;
import java.lang.management.ManagementFactory;
import java.util.List;
import java.util.Random;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.ShrinkingMode;
import org.junit.jupiter.api.Test;

/**
 * Every decoder of what lies in ZooKeeper: whatever it reads, it answers with a value or a {@code
 * MessageException}, and soon. {@code -Dfuzz.tries=10000} reads more; a failure names the seed of
 * its input.
 */
class DecoderFuzzTest {

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

  private static Object placement(byte[] data) throws MessageException {
    return PlacementParser.parse(data, 1_000);
  }

  @Property(shrinking = ShrinkingMode.OFF)
  void plansAreReadOrRejected(@ForAll long seed) {
    check(DecoderFuzzTest::plan, like("plan.json", seed));
  }

  @Property(shrinking = ShrinkingMode.OFF)
  void statusesAreReadOrRejected(@ForAll long seed) {
    check(Status::read, like("status.json", seed));
  }

  @Property(shrinking = ShrinkingMode.OFF)
  void settingsAreReadOrRejected(@ForAll long seed) {
    check(Settings::isOff, like("mode.json", seed));
  }

  @Property(shrinking = ShrinkingMode.OFF)
  void placementsAreReadOrRejected(@ForAll long seed) {
    check(DecoderFuzzTest::placement, like("topology.json", seed));
  }

  @Property(shrinking = ShrinkingMode.OFF)
  void snapshotsAreReadOrRejected(@ForAll long seed) {
    check(SnapshotWriter::versionOf, like("cluster.json", seed));
  }

  @Test
  void bombsAreRejectedByEveryDecoder() {
    List<Decoder> decoders =
        List.of(
            DecoderFuzzTest::plan,
            Status::read,
            Settings::isOff,
            DecoderFuzzTest::placement,
            SnapshotWriter::versionOf);
    for (byte[] bomb : Hostile.bombs()) {
      assertTrue(bomb.length < 900 * 1024, "fits into a znode: " + bomb.length);
      decoders.forEach(decoder -> check(decoder, bomb));
    }
  }

  private static byte[] like(String example, long seed) {
    return Hostile.next(new Random(seed), Contract.bytes(example));
  }
}
