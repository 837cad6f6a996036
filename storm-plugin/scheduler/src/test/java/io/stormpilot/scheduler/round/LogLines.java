package io.stormpilot.scheduler.round;

import java.util.ArrayList;
import java.util.List;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.core.LogEvent;
import org.apache.logging.log4j.core.Logger;
import org.apache.logging.log4j.core.appender.AbstractAppender;
import org.apache.logging.log4j.core.config.Property;

/** What a class logs in the meantime. */
final class LogLines {

  private LogLines() {}

  /** Its lines, INFO and above: {@code ERROR failed}; {@code ERROR+ failed} with the stack. */
  static List<String> of(Class<?> source, Runnable work) {
    List<String> lines = new ArrayList<>();
    AbstractAppender appender =
        new AbstractAppender("lines", null, null, true, Property.EMPTY_ARRAY) {
          @Override
          public void append(LogEvent event) {
            String stack = event.getThrown() == null ? " " : "+ ";
            lines.add(event.getLevel() + stack + event.getMessage().getFormattedMessage());
          }
        };
    appender.start();
    Logger logger = (Logger) LogManager.getLogger(source);
    logger.setAdditive(false);
    logger.addAppender(appender);
    logger.setLevel(Level.INFO);
    try {
      work.run();
    } finally {
      logger.setLevel(Level.OFF);
      logger.removeAppender(appender);
    }
    return lines;
  }
}
