"""The command line's table of contents: every command with its summary, its panel and an example.

`--help` and shell completion read this table alone; the module of a command is imported when the command is run. The
summary is the first sentence of the command's own help (a test compares them). The man page is made from it too.
"""

from __future__ import annotations

from typing import NamedTuple

INSPECT = "Inspect a running system"
CONTROL = "Control the controller"
PLACE = "Drain hosts, pin and exclude"
MOVE = "Rollouts and routes"
TUNE = "Thresholds and the traffic log"
FILES = "Plan model files, size topologies"
SETUP = "Set up"
PANELS = (INSPECT, CONTROL, PLACE, MOVE, TUNE, FILES, SETUP)

HERE = "stormpilot.cli"
VERB = "verb"
"""`where` of a command that is made from its row in `stormpilot.operate.verbs.VERBS`, with nothing of its own."""


class Entry(NamedTuple):
    """A command: `name` as typed, `where` is `module:function`."""

    name: str
    where: str
    summary: str
    example: str
    panel: str = ""


class Group(NamedTuple):
    """Commands with a common first word."""

    name: str
    summary: str
    panel: str


GROUPS: tuple[Group, ...] = (
    Group("plan", "Plans: proposed, published and earlier ones; plans of model files.", INSPECT),
    Group("rollout", "Rollouts: plans that are carried out by rolling moves, without downtime.", MOVE),
    Group("routes", "Routes: which tasks get tuples; shift traffic without a restart.", MOVE),
    Group("thresholds", "Thresholds: which hold for a topology, and where they come from.", TUNE),
    Group("trafficlog", "The traffic log: mine thresholds, replay planners, report.", TUNE),
    Group("model", "Model files: check, make and summarise them.", FILES),
    Group("config", "The configuration of the controller.", SETUP),
    Group("local", "A Storm cluster on this machine, without Docker.", SETUP),
    Group("token", "Tokens: who may do what over HTTP.", SETUP),
)

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "status",
        f"{HERE}.status:status",
        "Show the controller, the scheduler plug-in, and every topology with its plan and the last decision.",
        "stormpilot status",
        INSPECT,
    ),
    Entry(
        "explain",
        f"{HERE}.live_explain:explain",
        "Explain the last decision for a topology gate by gate, and the placement executor by executor.",
        "stormpilot explain flights",
        INSPECT,
    ),
    Entry(
        "audit",
        f"{HERE}.records:audit",
        "Show who did what and why, oldest first.",
        "stormpilot audit --since 2h",
        INSPECT,
    ),
    Entry(
        "doctor",
        f"{HERE}.doctor:doctor",
        "Check an installation and tell how to fix what is wrong.",
        "stormpilot doctor --config controller.yaml",
        INSPECT,
    ),
    Entry(
        "assess",
        f"{HERE}.assess:assess",
        "Estimate what stormpilot would win on a cluster where nothing of it is installed; reads Nimbus only.",
        "stormpilot assess --nimbus nimbus-1",
        INSPECT,
    ),
    Entry(
        "trial-run",
        f"{HERE}.trial_run:trial_run",
        "Report what the controller would have moved in mode `advise`, and what that would have won and cost.",
        "stormpilot trial-run --config controller.yaml --since 7d -o trial.html",
        INSPECT,
    ),
    Entry(
        "what-if",
        f"{HERE}.what_if:what_if",
        "Plan on a changed model and compare it with the present placement; nothing is applied.",
        "stormpilot what-if --remove-node node-7 --scale-rate flights=1.5",
        INSPECT,
    ),
    Entry(
        "mode",
        f"{HERE}.verbs:mode",
        "Set what the controller may do with a topology, or with all that have no mode of their own.",
        "stormpilot mode act flights --why 'two weeks of good proposals'",
        CONTROL,
    ),
    Entry(
        "pause",
        VERB,
        "Publish and apply no new plan until `resume`; running workers are unaffected.",
        "stormpilot pause flights --why 'release tonight'",
        CONTROL,
    ),
    Entry("resume", VERB, "End a pause.", "stormpilot resume flights", CONTROL),
    Entry(
        "approve",
        VERB,
        "Publish exactly the plan that is proposed now, if it still fits the cluster.",
        "stormpilot approve flights",
        CONTROL,
    ),
    Entry(
        "discard",
        VERB,
        "Drop the plan that is proposed now, and keep the topology as it is for `decide.discard_hold_s`.",
        "stormpilot discard flights --why 'load test in progress'",
        CONTROL,
    ),
    Entry(
        "replan",
        VERB,
        "Plan a topology at once, regardless of cool-down, hold and size of the gain.",
        "stormpilot replan flights",
        CONTROL,
    ),
    Entry(
        "rollback",
        VERB,
        "Return to an earlier plan, if it still fits the cluster, and keep it for `decide.rollback_hold_s`.",
        "stormpilot rollback flights 1",
        CONTROL,
    ),
    Entry(
        "drain",
        f"{HERE}.verbs:drain",
        "Move all executors off a host, one topology at a time, and keep it empty until `undrain`.",
        "stormpilot drain node-7 --wait --why 'new disk'",
        PLACE,
    ),
    Entry("undrain", VERB, "Make a host schedulable again; triggers no move.", "stormpilot undrain node-7", PLACE),
    Entry(
        "pin",
        f"{HERE}.verbs:pin",
        "Bind a component, or the executor of one task, to a supervisor; it moves there if it runs elsewhere.",
        "stormpilot pin flights parse/12 node-3",
        PLACE,
    ),
    Entry(
        "unpin", f"{HERE}.verbs:unpin", "Remove a pin; triggers no move.", "stormpilot unpin flights parse/12", PLACE
    ),
    Entry(
        "exclude",
        VERB,
        "Keep a component, a topology, or everything off a host or supervisor; what runs there moves away.",
        "stormpilot exclude node-7 flights parse",
        PLACE,
    ),
    Entry(
        "include",
        VERB,
        "Remove an exclusion, given as it was made; triggers no move.",
        "stormpilot include node-7 flights parse",
        PLACE,
    ),
    Entry(
        "planners",
        f"{HERE}.compute:planners",
        "List the planners with their parameters: default, range, unit and meaning.",
        "stormpilot planners best",
        FILES,
    ),
    Entry(
        "size",
        f"{HERE}.size:size",
        "Size a topology for a rate: threads, slots and VMs, and where they go.",
        "stormpilot size topology.yaml --rate 5000",
        FILES,
    ),
    Entry(
        "predict",
        f"{HERE}.size:predict",
        "Predict the rate that a plan supports, the load of its slots and VMs, and its bottleneck.",
        "stormpilot predict topology.yaml --plan plan.json",
        FILES,
    ),
    Entry(
        "apply-size",
        f"{HERE}.apply_size:apply_size",
        "Apply a size to a running topology: threads by a rebalance, then the placement as its plan.",
        "stormpilot apply-size topology.yaml --rate 5000 --nimbus nimbus-1 --dry-run",
        FILES,
    ),
    Entry(
        "profile",
        f"{HERE}.profile:profile",
        "Profile a component by trial runs on a cluster: its peak rate, CPU and memory for rising numbers of threads.",
        "stormpilot profile tasks.pi:Pi -o pi.json --nimbus nimbus-1 --zookeeper zk-1:2181",
        FILES,
    ),
    Entry(
        "run",
        f"{HERE}.control:run",
        "Run the controller until SIGTERM or Ctrl-C; SIGHUP reloads the configuration.",
        "stormpilot run controller.yaml",
        SETUP,
    ),
    Entry(
        "submit",
        f"{HERE}.submit:submit",
        "Submit a topology of a streamparse project, with load reporting added to its Python components.",
        "stormpilot submit flights --environment prod --workers 8",
        SETUP,
    ),
    Entry(
        "plan show",
        f"{HERE}.live_plan:show",
        "Show the plan that is published for a topology, or the newer proposed plan.",
        "stormpilot plan show flights",
    ),
    Entry(
        "plan diff",
        f"{HERE}.plan_diff:diff",
        "Show which executors a plan moves.",
        "stormpilot plan diff flights",
    ),
    Entry(
        "plan history",
        f"{HERE}.records:plan_history",
        "Show the published plans of a topology, newest first.",
        "stormpilot plan history flights",
    ),
    Entry(
        "plan compute",
        f"{HERE}.compute:compute",
        "Plan a model file: model.json in, plan.json out.",
        "stormpilot plan compute --model model.json --budget 10 -o plan.json",
    ),
    Entry(
        "plan compare",
        f"{HERE}.compare:compare",
        "Compare planners on one model file: metrics, moves, time and gap to the best bound.",
        "stormpilot plan compare --model model.json -p best -p default",
    ),
    Entry(
        "plan explain",
        f"{HERE}.explain:explain",
        "Explain for each executor of a model file why it is where the plan has it.",
        "stormpilot plan explain flights --model model.json --plan plan.json",
    ),
    Entry(
        "rollout status",
        f"{HERE}.rollout:status",
        "Show the progress of rollouts, or how the last ones ended.",
        "stormpilot rollout status flights --wait",
    ),
    Entry(
        "rollout pause",
        VERB,
        "Begin no further step of a rollout; a step that moves executors is completed.",
        "stormpilot rollout pause flights",
    ),
    Entry("rollout resume", VERB, "Continue a paused rollout.", "stormpilot rollout resume flights"),
    Entry(
        "rollout abort",
        VERB,
        "End a rollout: every task gets tuples again, and executors stay where they are then.",
        "stormpilot rollout abort flights",
    ),
    Entry(
        "routes show",
        f"{HERE}.routes:show",
        "Show which tasks of a topology get tuples, which are standby, and what cannot be routed and why.",
        "stormpilot routes show flights",
    ),
    Entry(
        "routes shift",
        f"{HERE}.routes:shift",
        "Shift the tuples of one task to another, standby or active, without a restart.",
        "stormpilot routes shift flights parse --from 12 --to 17",
    ),
    Entry(
        "routes deactivate",
        f"{HERE}.routes:deactivate",
        "Send a task no more tuples; the other tasks take its share and its keys.",
        "stormpilot routes deactivate flights parse 12",
    ),
    Entry(
        "routes activate",
        f"{HERE}.routes:activate",
        "Send a task tuples again; it takes its share, and the state of its keys, from the other tasks.",
        "stormpilot routes activate flights parse 12",
    ),
    Entry(
        "routes reset",
        VERB,
        "Remove the routes of a topology: Storm's own groupings hold again.",
        "stormpilot routes reset flights",
    ),
    Entry(
        "thresholds show",
        f"{HERE}.thresholds:show",
        "Show which thresholds hold for a topology, and where each comes from.",
        "stormpilot thresholds show flights",
    ),
    Entry(
        "thresholds set",
        f"{HERE}.thresholds:set_",
        "Set a threshold of a topology until `unset`, regardless of what is mined.",
        "stormpilot thresholds set flights decide.gain_threshold_ratio 0.2",
    ),
    Entry(
        "thresholds freeze",
        f"{HERE}.thresholds:freeze",
        "Keep a mined threshold as it is until `unset`, regardless of what is mined later.",
        "stormpilot thresholds freeze flights decide.overload_s",
    ),
    Entry(
        "thresholds unset",
        f"{HERE}.thresholds:unset",
        "Remove what was set or frozen: the mined threshold holds again, else the configured one.",
        "stormpilot thresholds unset flights decide.overload_s",
    ),
    Entry(
        "trafficlog mine",
        f"{HERE}.trafficlog_mine:mine",
        "Mine thresholds, costs and profiles from a traffic log.",
        "stormpilot trafficlog mine --config controller.yaml --since 14d --publish",
    ),
    Entry(
        "trafficlog replay",
        f"{HERE}.trafficlog_replay:replay",
        "Replay planners over the recorded past: network cost, overload and moves, beside what happened.",
        "stormpilot trafficlog replay flights --log /var/lib/stormpilot/traffic",
    ),
    Entry(
        "trafficlog report",
        f"{HERE}.trafficlog_report:report",
        "Write a report on a traffic log as one HTML page, with its figures as JSON beside it.",
        "stormpilot trafficlog report --log /var/lib/stormpilot/traffic -o report.html",
    ),
    Entry(
        "trafficlog generate",
        f"{HERE}.trafficlog_generate:generate",
        "Generate a synthetic traffic log, with its ground truth in truth.json.",
        "stormpilot trafficlog generate /tmp/log --days 7",
    ),
    Entry(
        "model validate",
        f"{HERE}.model:validate",
        "Check a model file: every problem, field by field.",
        "stormpilot model validate model.json",
    ),
    Entry(
        "model show",
        f"{HERE}.model:show",
        "Summarise a model file: supervisors, topologies, rates, load, and the cost of the present placement.",
        "stormpilot model show model.json",
    ),
    Entry(
        "model generate",
        f"{HERE}.model:generate",
        "Generate a model file: same kind, sizes and seed give the same model.",
        "stormpilot model generate loaded --executors 200 --nodes 20 -o model.json",
    ),
    Entry(
        "config check",
        f"{HERE}.config_check:check",
        "Check a configuration file and show every setting, those that differ from the default first.",
        "stormpilot config check controller.yaml",
    ),
    Entry(
        "config explain",
        f"{HERE}.config_explain:explain",
        "Explain the settings of controller.yaml: default, range, unit and meaning.",
        "stormpilot config explain decide",
    ),
    Entry(
        "config example",
        f"{HERE}.config_example:example",
        "Print a controller.yaml with every setting that is not advanced, its default and its meaning.",
        "stormpilot config example -o controller.yaml",
    ),
    Entry(
        "local up",
        f"{HERE}.local:up",
        "Start a cluster: ZooKeeper, Nimbus and supervisors; returns when Storm knows them all.",
        "stormpilot local up --supervisors 4 --slots 4",
    ),
    Entry(
        "local down",
        f"{HERE}.local:down",
        "End a cluster and every process that belongs to it; logs are kept.",
        "stormpilot local down",
    ),
    Entry(
        "local status",
        f"{HERE}.local:status",
        "Show daemons, supervisors, topologies, logs and addresses of the cluster.",
        "stormpilot local status",
    ),
    Entry(
        "local submit",
        f"{HERE}.local:submit",
        "Submit a topology to the cluster; takes the options of `stormpilot submit` too.",
        "stormpilot local submit flights --project topologies --environment local",
    ),
    Entry(
        "local kill", f"{HERE}.local:kill", "Kill a topology of the cluster at once.", "stormpilot local kill flights"
    ),
    Entry(
        "local logs",
        f"{HERE}.local:logs",
        "Print the last lines of the cluster's logs, also of a cluster that is down.",
        "stormpilot local logs --daemon nimbus",
    ),
    Entry(
        "token new",
        f"{HERE}.token:new",
        "Make a token and print it, once, with its line for the file that api.tokens_file names.",
        "stormpilot token new ann --role operator",
    ),
)
