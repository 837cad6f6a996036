package io.stormpilot.worker;

import io.stormpilot.worker.count.TaskCounters;
import io.stormpilot.worker.count.TaskCounters.Kind;
import io.stormpilot.worker.count.Threads;
import io.stormpilot.worker.report.HookConfig;
import io.stormpilot.worker.report.WorkerReporter;
import java.util.Collections;
import java.util.Map;
import org.apache.storm.daemon.Acker;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.hooks.ITaskHook;
import org.apache.storm.hooks.info.BoltAckInfo;
import org.apache.storm.hooks.info.BoltExecuteInfo;
import org.apache.storm.hooks.info.BoltFailInfo;
import org.apache.storm.hooks.info.EmitInfo;
import org.apache.storm.hooks.info.SpoutAckInfo;
import org.apache.storm.hooks.info.SpoutFailInfo;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.tuple.Tuple;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Measures one task: add {@code io.stormpilot.worker.LoadHook} to {@code topology.auto.task.hooks}.
 *
 * <p>Storm calls the hook on the threads of the topology: it counts, and nothing else. Whatever it
 * throws would end the worker, so nothing leaves it.
 */
public final class LoadHook implements ITaskHook {

  private static final Logger LOG = LoggerFactory.getLogger(LoadHook.class);
  private static final String THREADS = "stormpilot.threads";

  private TaskCounters counters;
  private TaskCounters joined;
  private WorkerReporter reporter;

  @Override
  public void prepare(Map<String, Object> conf, TopologyContext context) {
    try {
      if (context.getThisTaskId() >= 0 && HookConfig.enabled(conf)) {
        TaskCounters own = counters(context);
        reporter = WorkerReporter.join(conf, context, own);
        joined = own;
        counters = own;
      }
    } catch (Throwable fault) {
      giveUp(fault);
    }
  }

  @Override
  public void boltExecute(BoltExecuteInfo info) {
    TaskCounters own = counters;
    if (own != null) {
      try {
        own.executed(info.tuple, info.executeLatencyMs);
      } catch (Throwable fault) {
        giveUp(fault);
      }
    }
  }

  @Override
  public void emit(EmitInfo info) {
    TaskCounters own = counters;
    if (own != null) {
      try {
        own.emitted(info.stream, info.outTasks);
      } catch (Throwable fault) {
        giveUp(fault);
      }
    }
  }

  @Override
  public void boltAck(BoltAckInfo info) {
    acked(info.tuple);
  }

  @Override
  public void boltFail(BoltFailInfo info) {
    acked(info.tuple);
  }

  @Override
  public void spoutAck(SpoutAckInfo info) {
    TaskCounters own = counters;
    if (own != null) {
      try {
        own.completed(info.completeLatencyMs);
      } catch (Throwable fault) {
        giveUp(fault);
      }
    }
  }

  @Override
  public void spoutFail(SpoutFailInfo info) {
    TaskCounters own = counters;
    if (own != null) {
      try {
        own.failed();
      } catch (Throwable fault) {
        giveUp(fault);
      }
    }
  }

  @Override
  public void cleanup() {
    try {
      if (joined != null) {
        reporter.leave(joined);
      }
    } catch (Throwable fault) {
      giveUp(fault);
    }
  }

  private void acked(Tuple tuple) {
    TaskCounters own = counters;
    if (own != null) {
      try {
        own.acked(tuple);
      } catch (Throwable fault) {
        giveUp(fault);
      }
    }
  }

  /** No more of this task: the worker goes on as if we were not there. */
  private void giveUp(Throwable fault) {
    counters = null;
    try {
      LOG.warn("stormpilot: measuring of a task stopped; the task runs on", fault);
      if (joined != null) {
        reporter.forget(joined);
      }
    } catch (Throwable again) {
      // Nothing is left that could be done about it, and nothing may be thrown.
      counters = null;
    }
  }

  private static TaskCounters counters(TopologyContext context) {
    int task = context.getThisTaskId();
    String component = context.getThisComponentId();
    int lastTask = Math.max(task, Collections.max(context.getTaskToComponent().keySet()));
    int peers = Math.max(1, context.getComponentTasks(component).size());
    boolean tracked = context.getTaskToComponent().containsValue(Acker.ACKER_COMPONENT_ID);
    Threads threads = (Threads) context.getExecutorData(THREADS);
    if (threads == null) {
      threads = new Threads();
      context.setExecutorData(THREADS, threads); // what the tasks of an executor share
    }
    Kind kind = kind(context.getRawTopology(), component);
    return new TaskCounters(task, component, kind, lastTask, peers, tracked, threads);
  }

  private static Kind kind(StormTopology topology, String component) {
    if (topology.get_spouts().containsKey(component)) {
      return Kind.SPOUT;
    }
    return component.equals(Acker.ACKER_COMPONENT_ID) ? Kind.ACKER : Kind.BOLT;
  }
}
