package io.stormpilot.scheduler.zookeeper;

import io.stormpilot.scheduler.message.Limits;
import io.stormpilot.scheduler.message.Payload.MessageException;
import io.stormpilot.scheduler.message.Problem;
import io.stormpilot.scheduler.message.Reason;
import io.stormpilot.scheduler.message.Rejection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.apache.storm.shade.org.apache.curator.framework.CuratorFramework;
import org.apache.storm.shade.org.apache.zookeeper.KeeperException;
import org.apache.storm.shade.org.apache.zookeeper.Watcher;
import org.apache.storm.shade.org.apache.zookeeper.data.Stat;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Reads znodes in which anything can be, and keeps the book of what is wrong with them.
 *
 * <p>A node that cannot be a message of ours, by its size or its content, is a {@link Problem};
 * whoever asked goes on with what was last read, and with all other nodes. Each read leaves a
 * watch. For one thread only.
 */
final class ZnodeReader {

  private static final int MAX_KEPT = 1_000;

  private static final Logger LOG = LoggerFactory.getLogger(ZnodeReader.class);

  private final CuratorFramework zk;
  private final Paths paths;
  private final Watcher watcher;
  private final Map<String, List<String>> listed = new HashMap<>();

  /** Folders of which the list is too large, with the last change of their children. */
  private final Map<String, Long> tooLarge = new HashMap<>();

  private final Map<String, Problem> problems = new TreeMap<>();

  /** Of folders that cannot be listed: told first, however many nodes cannot be read. */
  private final Map<String, Problem> folders = new TreeMap<>();

  private final Map<String, Problem> logged = new HashMap<>();

  /** Nodes that are read once, at a refresh, and could not be: with their last change. */
  private final Map<String, Long> unreadOnce = new HashMap<>();

  /** A node as last read; {@code mzxid} tells whether it has changed since. */
  record Known<T>(long mzxid, T value) {}

  ZnodeReader(CuratorFramework zk, Paths paths, Watcher watcher) {
    this.zk = zk;
    this.paths = paths;
    this.watcher = watcher;
  }

  /** What is wrong, by path: at most so many. */
  List<Problem> problems(int most) {
    return Stream.concat(folders.values().stream(), problems.values().stream())
        .limit(most)
        .toList();
  }

  /** Makes a value of what a znode holds. */
  interface Reader<T> {
    T read(byte[] data) throws MessageException;
  }

  /** The value of a node that cannot be read. */
  interface Unreadable<T> {
    T instead(Rejection why, T before);
  }

  /**
   * Bring what is known of a node up to date, by a watch; it is fetched only if it was written
   * since.
   */
  <T> void refresh(
      Map<String, Known<T>> known,
      String name,
      String path,
      Limits limits,
      Reader<T> reader,
      Unreadable<T> unreadable)
      throws Exception {
    Known<T> before = known.get(name);
    T lastValue = before == null ? null : before.value();
    try {
      Stat stat = zk.checkExists().usingWatcher(watcher).forPath(path);
      if (stat == null) {
        known.remove(name);
        problems.remove(path);
        return;
      }
      if (before != null && before.mzxid() == stat.getMzxid()) {
        return;
      }
      problems.remove(path);
      Stat at = new Stat();
      byte[] data = fetch(path, limits.packedBytes(), stat, at);
      T value = data == null ? null : contain(path, reader, data);
      if (value == null) {
        Problem problem = problems.get(path);
        String text = problem == null ? "it cannot be read" : problem.text();
        value = unreadable.instead(new Rejection(Reason.MALFORMED, text), lastValue);
      }
      known.put(name, new Known<>(data == null ? stat.getMzxid() : at.getMzxid(), value));
    } catch (KeeperException.NoNodeException e) {
      known.remove(name);
    } catch (KeeperException.NoAuthException e) {
      Rejection why = new Rejection(Reason.MALFORMED, "it cannot be read: " + e.getMessage());
      setProblem(path, why);
      known.put(name, new Known<>(-1, unreadable.instead(why, lastValue)));
    }
  }

  /** Read a node once; one that cannot be read is left out. */
  void contained(String path, Limits limits, Reader<?> reader) throws Exception {
    Stat at = new Stat();
    byte[] data = data(path, limits.packedBytes(), at);
    if (data != null) {
      contain(path, reader, data);
    }
    if (problems.containsKey(path)) {
      unreadOnce.put(path, at.getMzxid());
    }
  }

  /** What the reader makes of the data; null and a problem where it fails, in whatever way. */
  <T> T contain(String path, Reader<T> reader, byte[] data) {
    try {
      return reader.read(data);
    } catch (MessageException e) {
      setProblem(path, new Rejection(e.reason(), e.getMessage()));
    } catch (RuntimeException | StackOverflowError | OutOfMemoryError e) {
      setProblem(path, new Rejection(Reason.MALFORMED, "reading it failed: " + e));
    }
    return null;
  }

  /** The data of a node; null without it, or with a problem. */
  byte[] data(String path, int maxBytes, Stat at) throws Exception {
    problems.remove(path);
    try {
      Stat stat = zk.checkExists().usingWatcher(watcher).forPath(path);
      if (stat == null) {
        return null;
      }
      at.setMzxid(stat.getMzxid());
      return fetch(path, maxBytes, stat, at);
    } catch (KeeperException.NoNodeException e) {
      return null;
    } catch (KeeperException.NoAuthException e) {
      setProblem(path, new Rejection(Reason.MALFORMED, "it cannot be read: " + e.getMessage()));
      return null;
    }
  }

  /** The data; null and a problem where it is too large to be fetched. */
  private byte[] fetch(String path, int maxBytes, Stat stat, Stat at) throws Exception {
    if (stat.getDataLength() > maxBytes) {
      String text = "it has " + stat.getDataLength() + " bytes, more than " + maxBytes;
      setProblem(path, new Rejection(Reason.MALFORMED, text));
      return null;
    }
    byte[] data = LargeAnswer.to(server -> orEmpty(server.getData(path, false, at)), path, zk);
    if (data == null) {
      setProblem(path, new Rejection(Reason.MALFORMED, LargeAnswer.LOST));
    }
    return data;
  }

  private static byte[] orEmpty(byte[] data) {
    return data == null ? new byte[0] : data;
  }

  /**
   * The children of a node; those of the last time and a problem where they cannot be listed.
   *
   * <p>ZooKeeper 3.9 asks for the permission to read a node also to tell whether it is there.
   */
  List<String> children(String path) throws Exception {
    problems.remove(path);
    folders.remove(path);
    List<String> children = null;
    try {
      Stat stat = zk.checkExists().usingWatcher(watcher).forPath(path);
      if (stat == null) {
        children = List.of();
      } else if (stat.getNumChildren() > ZnodeStore.MAX_CHILDREN) {
        String text = "it has " + stat.getNumChildren() + " children, more than ";
        setFolderProblem(path, new Rejection(Reason.MALFORMED, text + ZnodeStore.MAX_CHILDREN));
      } else {
        children = answer(path, stat.getPzxid());
      }
    } catch (KeeperException.NoNodeException e) {
      children = List.of();
    } catch (KeeperException.NoAuthException e) {
      setFolderProblem(
          path, new Rejection(Reason.MALFORMED, "it cannot be read: " + e.getMessage()));
    }
    if (children == null) {
      return listed.getOrDefault(path, List.of());
    }
    listed.put(path, List.copyOf(children));
    return children;
  }

  /** Its children; null and a problem where the list is too large, which is found out once. */
  private List<String> answer(String path, long lastChange) throws Exception {
    List<String> children = null;
    if (!Long.valueOf(lastChange).equals(tooLarge.remove(path))) {
      children = LargeAnswer.to(server -> server.getChildren(path, watcher), path, zk);
    }
    if (children == null) {
      tooLarge.put(path, lastChange);
      setFolderProblem(path, new Rejection(Reason.MALFORMED, LargeAnswer.LOST));
    }
    return children;
  }

  /** Whether a node has been listed, or was found not to be there. */
  boolean haveListed(String path) {
    return listed.containsKey(path);
  }

  /** What was listed so far may be of an earlier time: it no longer counts. */
  void forgetListed() {
    listed.clear();
  }

  /** Tell, and log when it is new, what is wrong with a node; of very many the first ones. */
  void setProblem(String path, Rejection why) {
    Problem problem = new Problem(paths.relative(path), why.reason(), why.text());
    if (problems.size() < MAX_KEPT || problems.containsKey(path)) {
      problems.put(path, problem);
      log(path, problem);
    }
  }

  boolean hasProblem(String path) {
    return problems.containsKey(path);
  }

  private void setFolderProblem(String path, Rejection why) {
    Problem problem = new Problem(paths.relative(path), why.reason(), why.text());
    folders.put(path, problem);
    log(path, problem);
  }

  private void log(String path, Problem problem) {
    if (!problem.equals(logged.put(path, problem))) {
      LOG.warn("cannot use znode {}: {} {}", path, problem.reason(), problem.text());
    }
    if (logged.size() > 2 * MAX_KEPT) {
      logged.keySet().removeIf(at -> !problems.containsKey(at) && !folders.containsKey(at));
    }
  }

  /** Problems of nodes that are gone, or, of those that are read once, were written again. */
  void forgetSolvedProblems(Set<String> topologyIds, Set<String> modeNames) throws Exception {
    problems.keySet().removeIf(path -> isGone(path, paths.plans(), topologyIds));
    problems.keySet().removeIf(path -> isGone(path, paths.modes(), modeNames));
    for (Map.Entry<String, Long> node : List.copyOf(unreadOnce.entrySet())) {
      if (mzxid(node.getKey()) != node.getValue()) {
        problems.remove(node.getKey());
        unreadOnce.remove(node.getKey());
      }
    }
  }

  /** The last change of a node: -1 where it is gone, 0 where it may not be read. */
  private long mzxid(String path) throws Exception {
    try {
      Stat stat = zk.checkExists().usingWatcher(watcher).forPath(path);
      return stat == null ? -1 : stat.getMzxid();
    } catch (KeeperException.NoAuthException e) {
      return 0;
    }
  }

  private static boolean isGone(String path, String parent, Set<String> children) {
    return path.startsWith(parent + "/") && !children.contains(path.substring(parent.length() + 1));
  }
}
