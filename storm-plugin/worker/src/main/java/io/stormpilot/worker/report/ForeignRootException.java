package io.stormpilot.worker.report;

import java.io.IOException;

/** What is below our root is another Storm cluster's: nothing of it is written. */
final class ForeignRootException extends IOException {
  private static final long serialVersionUID = 1;

  ForeignRootException(String text) {
    super(text);
  }
}
