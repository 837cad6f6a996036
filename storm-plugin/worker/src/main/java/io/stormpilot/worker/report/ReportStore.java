package io.stormpilot.worker.report;

import java.util.List;

/** Where reports go. Called on the reporter's thread only; an exception means "not now". */
interface ReportStore extends AutoCloseable {

  /** Create or replace the report of a reporter. */
  void write(String reporter, byte[] data) throws Exception;

  /** Remove the report of a reporter; none is fine. */
  void delete(String reporter) throws Exception;

  /** The reporters of this topology that have a report. */
  List<String> reporters() throws Exception;

  @Override
  void close();
}
