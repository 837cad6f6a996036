/**
 * What runs in Storm's workers: a task hook that measures every task, Java or not, and reports to
 * ZooKeeper. One jar for {@code extlib/}. Nothing here may make a worker worse: a fault of ours
 * ends the measuring of a task with one line in the log.
 */
package io.stormpilot.worker;
