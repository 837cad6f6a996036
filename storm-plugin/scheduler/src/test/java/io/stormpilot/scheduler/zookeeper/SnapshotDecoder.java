package io.stormpilot.scheduler.zookeeper;

import io.stormpilot.scheduler.message.Payload.MessageException;

/** Reads a snapshot as Nimbus does before it writes the next one. */
public final class SnapshotDecoder {

  private SnapshotDecoder() {}

  public static Object read(byte[] data) throws MessageException {
    return Written.read(data);
  }
}
