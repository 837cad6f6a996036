package io.stormpilot.scheduler.zookeeper;

import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A thread that takes turns until it is closed. Nothing that a turn throws ends it: Nimbus ends
 * itself where an error ends one of its threads.
 */
final class BackgroundLoop implements AutoCloseable {

  /** What is done again and again. */
  interface Turn {

    /** Take one; returns whether there is another. */
    boolean take() throws InterruptedException;
  }

  private static final Logger LOG = LoggerFactory.getLogger(BackgroundLoop.class);

  private final Turn turn;
  private final long restMs;
  private final Thread thread;

  /**
   * Make a loop; {@link #start} starts its thread.
   *
   * @param restMs how long it waits after a turn that has thrown something
   */
  BackgroundLoop(String name, long restMs, Turn turn) {
    this.turn = turn;
    this.restMs = restMs;
    this.thread = new Thread(this::run, name);
    thread.setDaemon(true);
  }

  void start() {
    thread.start();
  }

  /** Interrupts the turn; it is not waited for. */
  @Override
  public void close() {
    thread.interrupt();
  }

  private void run() {
    boolean more = true;
    while (more) {
      try {
        more = turn.take();
      } catch (InterruptedException e) {
        return;
      } catch (Throwable e) {
        more = rest(e);
      }
    }
  }

  private boolean rest(Throwable e) {
    try {
      LOG.error("{} failed, it goes on", thread.getName(), e);
    } catch (Throwable noLine) {
      // As without memory for the line.
    }
    try {
      Thread.sleep(restMs);
      return true;
    } catch (InterruptedException closed) {
      return false;
    }
  }
}
