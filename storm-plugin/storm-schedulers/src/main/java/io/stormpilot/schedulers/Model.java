package io.stormpilot.schedulers;

import com.google.gson.FieldNamingPolicy;
import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonParseException;
import java.io.IOException;
import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/**
 * The part of {@code model.json} that Storm's schedulers can know: supervisors, topologies and the
 * load of their executors. Traffic, sites, pins and exclusions are not read: no scheduler of Storm
 * uses them.
 */
record Model(int schema, List<Supervisor> supervisors, List<Topology> topologies) {

  private static final int SCHEMA = 1;
  private static final Gson JSON =
      new GsonBuilder()
          .setFieldNamingPolicy(FieldNamingPolicy.LOWER_CASE_WITH_UNDERSCORES)
          .create();

  /**
   * A supervisor; {@code rack}: as Storm knows it, {@code stormRack} where the model tells it apart
   * from the one of network cost.
   */
  record Supervisor(
      String id,
      String host,
      String rack,
      List<Integer> slots,
      double cores,
      double mhz,
      double memoryMb,
      Double cpuLimitMhz,
      String stormRack) {

    Supervisor {
      rack = stormRack != null ? stormRack : rack == null ? "/default-rack" : rack;
    }

    /** The part of the CPU that may be filled, MHz. */
    double limitMhz() {
      return cpuLimitMhz == null ? cores * mhz : cpuLimitMhz;
    }
  }

  record Topology(
      String id,
      String name,
      int workers,
      List<Component> components,
      List<Executor> executors,
      List<Assigned> assignment,
      String owner,
      Integer priority) {}

  record Component(String id, String kind, List<Input> inputs) {

    Component {
      kind = kind == null ? "bolt" : kind;
      inputs = inputs == null ? List.of() : inputs;
    }
  }

  record Input(String component, String stream, String grouping) {

    Input {
      stream = stream == null ? "default" : stream;
      grouping = grouping == null ? "SHUFFLE" : grouping;
    }
  }

  record Executor(
      int start, int end, String component, double cpuMhz, double memoryMb, boolean measured) {}

  record Assigned(int start, String supervisor, int port) {}

  /**
   * Reads a model; an unreadable or newer one is an {@link IllegalArgumentException} that names the
   * file.
   */
  static Model read(Path file) {
    if (!Files.isReadable(file)) {
      throw new IllegalArgumentException(file + ": no such file, or not readable");
    }
    try (Reader in = Files.newBufferedReader(file)) {
      Model model = JSON.fromJson(in, Model.class);
      if (model == null || model.supervisors == null || model.topologies == null) {
        throw new IllegalArgumentException(
            file + ": expected the fields supervisors and topologies");
      }
      if (model.schema > SCHEMA) {
        throw new IllegalArgumentException(
            file
                + ": schema "
                + model.schema
                + " is newer than "
                + SCHEMA
                + ", the newest that is read here");
      }
      return model;
    } catch (JsonParseException e) {
      throw new IllegalArgumentException(file + ": not a model: " + e.getMessage(), e);
    } catch (IOException e) {
      throw new IllegalArgumentException(file + ": " + e.getMessage(), e);
    }
  }

  /** Writes it as {@link #read} reads it; fields without a value are left out. */
  void write(Path file) throws IOException {
    Files.writeString(file, JSON.toJson(this));
  }

  int executorCount() {
    return topologies.stream().mapToInt(t -> t.executors().size()).sum();
  }

  /** MHz of one core in the mean over all cores: what 100 of Storm's CPU points stand for. */
  double mhzPerCore() {
    double cores = supervisors.stream().mapToDouble(Supervisor::cores).sum();
    double mhz = supervisors.stream().mapToDouble(s -> s.cores() * s.mhz()).sum();
    return cores > 0 && mhz > 0 ? mhz / cores : 1.0;
  }
}
