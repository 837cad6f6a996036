package io.stormpilot.worker.count;

import java.util.Arrays;
import java.util.stream.Stream;

/**
 * The threads that work for an executor, shared by its tasks: its own, and others that were seen to
 * emit or ack for it (Storm names them in no telling way): readers of shell components, timers of
 * windows, threads of its clients.
 */
public final class Threads {

  private static final int MAX_HELPERS_OF_TASK = 4;

  private volatile int tasks;
  private volatile Thread own;
  private volatile Thread[] helpers = {};

  /** The executor's thread, or null while it was not seen yet. */
  public Thread own() {
    return own;
  }

  /** The other ones that are known. */
  public Thread[] helpers() {
    return helpers.clone();
  }

  /** One more task has this executor. */
  synchronized void join() {
    tasks++;
  }

  /** {@code thread} executes the tuples of this executor. */
  public void setOwn(Thread thread) {
    own = thread;
  }

  /** {@code thread} emitted or acked for a task of it; it waits for no lock where that is known. */
  public void addHelper(Thread thread) {
    if (isNew(thread)) {
      add(thread);
    }
  }

  private synchronized void add(Thread thread) {
    if (isNew(thread)) {
      Stream<Thread> alive = Arrays.stream(helpers).filter(Thread::isAlive);
      helpers = Stream.concat(alive, Stream.of(thread)).toArray(Thread[]::new);
    }
  }

  /** It is not known, and there is room for it: that of one that ended, as in a pool, is free. */
  private boolean isNew(Thread thread) {
    Thread[] known = helpers;
    for (Thread one : known) {
      if (one == thread) {
        return false;
      }
    }
    boolean room = known.length < MAX_HELPERS_OF_TASK * tasks;
    for (int i = 0; i < known.length && !room; i++) {
      room = !known[i].isAlive();
    }
    return room;
  }
}
