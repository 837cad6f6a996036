package io.stormpilot.scheduler.zookeeper;

import io.stormpilot.scheduler.message.Limits;
import io.stormpilot.scheduler.message.Payload.MessageException;
import io.stormpilot.scheduler.message.RootOwner;
import io.stormpilot.scheduler.state.View.Root;
import org.apache.storm.shade.org.apache.zookeeper.data.Stat;
import org.apache.storm.utils.Time;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Whose our znodes are. Storm clusters that share a ZooKeeper and, by mistake, our root would
 * remove each other's folders: the first one writes its name there, and any other one keeps away. A
 * root without a name, be it of an earlier version, is anybody's.
 *
 * <p>Used by one thread: that of the view or that of the outbox, each with its own. {@link
 * #removed} is for any.
 */
public final class Ownership {

  private static final Logger LOG = LoggerFactory.getLogger(Ownership.class);

  private final Paths paths;
  private final RootOwner own;
  private Root told = Root.OURS;

  /** The last change of the znode that was found to be ours. */
  private long oursAt = Long.MIN_VALUE;

  private volatile boolean removed;

  public Ownership(Paths paths, RootOwner own) {
    this.paths = paths;
    this.own = own;
  }

  /** What the znode says now; what is new is logged. */
  Root judge(ZnodeReader znodes) throws Exception {
    String path = paths.owner();
    byte[] data = znodes.data(path, Limits.SETTING.packedBytes(), new Stat());
    RootOwner owner = data == null ? null : znodes.contain(path, RootOwner::read, data);
    Root verdict;
    if (owner != null) {
      verdict = isOurs(owner) ? Root.OURS : Root.FOREIGN;
    } else {
      verdict = znodes.hasProblem(path) ? Root.UNKNOWN : Root.OURS;
    }
    if (verdict != told) {
      told = verdict;
      log(verdict, owner);
    }
    return verdict;
  }

  private void log(Root verdict, RootOwner owner) {
    switch (verdict) {
      case FOREIGN ->
          LOG.error(
              "{} is of the Storm cluster with storm.zookeeper.root {} (Nimbus {}), ours is {}: no"
                  + " plans are applied, nothing is written, the fallback scheduler places"
                  + " topologies; set another stormpilot.zookeeper.root in storm.yaml here, or, where"
                  + " that cluster is gone, delete {}",
              paths.base(),
              owner.stormRoot(),
              owner.nimbus(),
              own.stormRoot(),
              paths.owner());
      case UNKNOWN ->
          LOG.error(
              "{} cannot be read, so nobody knows whose {} is: what runs stays, no new plans are"
                  + " applied, nothing is written; delete it if no other Storm cluster uses {}",
              paths.owner(),
              paths.base(),
              paths.base());
      case OURS -> LOG.info("{} is ours again", paths.base());
    }
  }

  /** Whether we may write: the znode is ours, or there was none and it is from now on. */
  public boolean holds(ZnodeStore store) throws Exception {
    String path = paths.owner();
    long changed = store.lastChange(path);
    if (changed < 0) {
      store.makeFolders();
      if (store.makeMessage(path, own.json(Time.currentTimeMillis()))) {
        LOG.info("{} is of our storm.zookeeper.root {} from now on", paths.base(), own.stormRoot());
      }
      removed |= oursAt != Long.MIN_VALUE;
      changed = store.lastChange(path);
    }
    if (changed != oursAt) {
      byte[] data = store.read(path);
      if (data == null || !isOurs(data)) {
        return false;
      }
      oursAt = changed;
    }
    return true;
  }

  /** Whether somebody removed the znode while it was ours, and all that lay beside it perhaps. */
  public boolean removed() {
    return removed;
  }

  /** All is written anew. */
  public void writtenAnew() {
    removed = false;
  }

  private boolean isOurs(byte[] data) {
    try {
      return isOurs(RootOwner.read(data));
    } catch (MessageException | RuntimeException e) {
      LOG.debug("not an owner", e);
      return false;
    }
  }

  private boolean isOurs(RootOwner owner) {
    return owner.stormRoot().equals(own.stormRoot());
  }
}
