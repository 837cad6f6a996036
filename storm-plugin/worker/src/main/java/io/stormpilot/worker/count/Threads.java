package io.stormpilot.worker.count;

/**
 * The threads that work for an executor, shared by its tasks: its own, and those of a shell
 * component that were seen to emit or ack for it (Storm names them in no telling way).
 */
public final class Threads {

  private static final int MAX_HELPERS_OF_TASK = 4;

  private int tasks;
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

  /** {@code thread} emitted or acked for a task of it. */
  public synchronized void addHelper(Thread thread) {
    if (helpers.length >= MAX_HELPERS_OF_TASK * tasks) {
      return;
    }
    for (Thread known : helpers) {
      if (known == thread) {
        return;
      }
    }
    Thread[] more = java.util.Arrays.copyOf(helpers, helpers.length + 1);
    more[helpers.length] = thread;
    helpers = more;
  }
}
