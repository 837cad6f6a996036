package io.stormpilot.scheduler.zookeeper;

import io.stormpilot.scheduler.message.Limits;
import io.stormpilot.scheduler.message.PlanEntry;
import io.stormpilot.scheduler.message.Reason;
import io.stormpilot.scheduler.message.Rejection;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import org.apache.storm.shade.org.apache.zookeeper.data.Stat;

/**
 * Reads the newest epoch that this process has ever seen: it never goes back. A number that no
 * leader can have reached does not count: every later plan would be older.
 */
final class EpochReader {

  private static final int MAX_BYTES = 64;

  private final Paths paths;
  private long newest;

  EpochReader(Paths paths) {
    this.paths = paths;
  }

  /** The newest one, of {@code epoch} and of these plans too. */
  long refresh(ZnodeReader znodes, Collection<PlanEntry> plans) throws Exception {
    for (PlanEntry entry : plans) {
      if (entry.plan() != null && canBe(entry.plan().epoch())) {
        newest = Math.max(newest, entry.plan().epoch());
      }
    }
    byte[] data = znodes.data(paths.epoch(), MAX_BYTES, new Stat());
    if (data != null && data.length > 0) {
      String text = new String(data, StandardCharsets.UTF_8).strip();
      try {
        long number = Long.parseLong(text);
        if (canBe(number)) {
          newest = Math.max(newest, number);
        } else {
          setProblem(znodes, "it is " + number + ", far above the newest epoch seen, " + newest);
        }
      } catch (NumberFormatException e) {
        setProblem(znodes, "it is not a number: " + text);
      }
    }
    return newest;
  }

  private boolean canBe(long epoch) {
    return epoch <= newest || epoch - newest <= Limits.EPOCHS_AHEAD;
  }

  private void setProblem(ZnodeReader znodes, String text) {
    String mended = text + "; the next leading controller writes it anew";
    znodes.setProblem(paths.epoch(), new Rejection(Reason.MALFORMED, mended));
  }
}
