package io.stormpilot.scheduler.round;

import org.apache.storm.Config;

/** Topologies that declare for the ResourceAwareScheduler what they need. */
final class RasTopologies {

  private RasTopologies() {}

  /** One of one worker, whose executors need so many points of CPU each. */
  static Story asks(Story story, String id, int priority, double points, int executors) {
    return story
        .topologyConf(id, Config.TOPOLOGY_PRIORITY, priority)
        .topologyConf(id, Config.TOPOLOGY_COMPONENT_CPU_PCORE_PERCENT, points)
        .topology(id, 1, executors);
  }
}
