package io.stormpilot.schedulers;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Callable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/**
 * The command line: {@code list}, {@code plan}, {@code export}. Exit codes: 0 done, 1 failed, 2
 * wrong usage or file.
 */
@Command(
    name = "storm-schedulers",
    description = "Plans of Storm's own schedulers on a model.json, without a cluster.",
    mixinStandardHelpOptions = true,
    subcommands = {Main.Names.class, Main.Schedule.class, Main.Export.class})
public final class Main {

  private Main() {}

  /** Runs the command and ends the process with its exit code. */
  public static void main(String[] args) {
    CommandLine commands = new CommandLine(new Main());
    commands.setExecutionExceptionHandler(
        (e, command, parsed) -> {
          if (!(e instanceof IllegalArgumentException)) {
            throw e;
          }
          System.err.println("storm-schedulers: " + e.getMessage());
          return CommandLine.ExitCode.USAGE;
        });
    System.exit(commands.execute(args));
  }

  @Command(name = "list", description = "Print the names of the schedulers.")
  static final class Names implements Callable<Integer> {

    @Override
    public Integer call() {
      Arrays.stream(StormScheduler.values())
          .map(StormScheduler::title)
          .forEach(System.out::println);
      return 0;
    }
  }

  @Command(
      name = "plan",
      description =
          "Write DIR/MODEL.SCHEDULER.json for each model and scheduler: the plan and its milliseconds.")
  static final class Schedule implements Callable<Integer> {

    @Parameters(arity = "1..*", paramLabel = "MODEL", description = "model.json files")
    private List<Path> models;

    @Option(
        names = {"-s", "--schedulers"},
        split = ",",
        paramLabel = "NAME",
        description = "schedulers, separated by commas (default: all)")
    private List<String> schedulers =
        Arrays.stream(StormScheduler.values()).map(StormScheduler::title).toList();

    @Option(
        names = {"-o", "--out"},
        required = true,
        paramLabel = "DIR",
        description = "where the plans go")
    private Path out;

    @Option(
        names = "--warmup",
        defaultValue = "0",
        paramLabel = "N",
        description = "rounds after the first that are not counted (default: ${DEFAULT-VALUE})")
    private int warmup;

    @Option(
        names = "--rounds",
        defaultValue = "1",
        paramLabel = "N",
        description = "rounds that are counted (default: ${DEFAULT-VALUE})")
    private int rounds;

    @Option(
        names = "--timeout",
        defaultValue = "60",
        paramLabel = "SECONDS",
        description =
            "limit of the resource aware scheduler for one topology (default: ${DEFAULT-VALUE})")
    private int timeoutS;

    @Option(
        names = "--budget",
        defaultValue = "60",
        paramLabel = "SECONDS",
        description =
            "begin no further round of a scheduler after this time (default: ${DEFAULT-VALUE})")
    private double budgetS;

    @Override
    public Integer call() throws IOException {
      List<StormScheduler> chosen = schedulers.stream().map(StormScheduler::named).toList();
      Files.createDirectories(out);
      for (Path file : models) {
        Model model = Model.read(file);
        String stem = file.getFileName().toString().replaceFirst("\\.json$", "");
        for (StormScheduler scheduler : chosen) {
          Plan plan = new SchedulerRun(model, scheduler, timeoutS).run(warmup, rounds, budgetS);
          plan.write(out.resolve(stem + "." + scheduler.title() + ".json"));
          System.out.printf(
              Locale.ROOT,
              "%s %s: %d of %d executors placed, first round %.1f ms, median %.1f ms%n",
              stem,
              scheduler.title(),
              model.executorCount() - plan.unplaced().size(),
              model.executorCount(),
              plan.metrics().get("schedule_ms_first"),
              plan.metrics().get("schedule_ms_median"));
        }
      }
      return 0;
    }
  }

  @Command(
      name = "export",
      description = "Write a production cluster of Storm's test jar as a model.json (no traffic).")
  static final class Export implements Callable<Integer> {

    @Parameters(
        paramLabel = "CLUSTER",
        description = "largeCluster01, largeCluster02 or largeCluster03")
    private String cluster;

    @Option(
        names = {"-o", "--out"},
        required = true,
        paramLabel = "FILE",
        description = "the model.json to write")
    private Path out;

    @Override
    public Integer call() throws IOException {
      ProductionCluster.read(cluster).model().write(out);
      return 0;
    }
  }
}
