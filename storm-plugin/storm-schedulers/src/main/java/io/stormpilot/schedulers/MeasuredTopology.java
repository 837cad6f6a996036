package io.stormpilot.schedulers;

import java.util.Collection;
import java.util.Map;
import java.util.Set;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.scheduler.resource.normalization.NormalizedResourceRequest;

/**
 * A topology whose executors each ask for their own CPU and memory. Storm itself knows one
 * declaration per component; with this its schedulers get all that was measured, which is more than
 * any user can tell them.
 */
final class MeasuredTopology extends TopologyDetails {

  private final Map<ExecutorDetails, NormalizedResourceRequest> requests;

  MeasuredTopology(
      String id,
      Map<String, Object> conf,
      StormTopology topology,
      int workers,
      Map<ExecutorDetails, String> components,
      Map<ExecutorDetails, NormalizedResourceRequest> requests,
      String owner) {
    super(id, conf, topology, workers, components, owner);
    this.requests = Map.copyOf(requests);
  }

  @Override
  public NormalizedResourceRequest getTotalResources(ExecutorDetails executor) {
    return requests.get(executor);
  }

  @Override
  public NormalizedResourceRequest getTaskResourceReqList(ExecutorDetails executor) {
    return requests.get(executor);
  }

  @Override
  public NormalizedResourceRequest getApproximateTotalResources() {
    return sum(requests.values());
  }

  @Override
  public NormalizedResourceRequest getApproximateResources(Set<ExecutorDetails> executors) {
    return sum(executors.stream().map(requests::get).filter(r -> r != null).toList());
  }

  @Override
  public Double getTotalCpuReqTask(ExecutorDetails executor) {
    NormalizedResourceRequest request = requests.get(executor);
    return request == null ? null : request.getTotalCpu();
  }

  @Override
  public Double getOnHeapMemoryRequirement(ExecutorDetails executor) {
    NormalizedResourceRequest request = requests.get(executor);
    return request == null ? null : request.getOnHeapMemoryMb();
  }

  @Override
  public Double getOffHeapMemoryRequirement(ExecutorDetails executor) {
    NormalizedResourceRequest request = requests.get(executor);
    return request == null ? null : request.getOffHeapMemoryMb();
  }

  private static NormalizedResourceRequest sum(Collection<NormalizedResourceRequest> requests) {
    NormalizedResourceRequest total = new NormalizedResourceRequest();
    requests.forEach(total::add);
    return total;
  }
}
