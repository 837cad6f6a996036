package io.stormpilot.scheduler.round;

import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.WorkerSlot;

/**
 * What is to be done to one topology's assignment, as a whole or not at all: these workers end,
 * these start.
 */
public record Change(
    String topologyId, List<WorkerSlot> freed, Map<WorkerSlot, Set<ExecutorDetails>> started) {}
