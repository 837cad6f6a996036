/** One thread per worker that writes what was measured to ZooKeeper, and owns everything slow. */
package io.stormpilot.worker.report;
