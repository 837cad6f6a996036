package io.stormpilot.worker.topology;

import java.util.Map;
import org.apache.storm.task.ShellBolt;
import org.apache.storm.topology.IRichBolt;
import org.apache.storm.topology.OutputFieldsDeclarer;

/**
 * A component of Storm's multilang as Java users declare it, by a subclass of {@link ShellBolt}: to
 * Storm a Java bolt like any other, though a process does its work.
 */
public final class ShellSink extends ShellBolt implements IRichBolt {

  private static final String PROGRAM =
      String.join(
          "\n",
          "import json, os, sys",
          "def read():",
          "    lines = []",
          "    for line in iter(sys.stdin.readline, ''):",
          "        if line.strip() == 'end':",
          "            return json.loads(''.join(lines))",
          "        lines.append(line)",
          "    sys.exit()",
          "def send(message):",
          "    print(json.dumps(message), 'end', sep='\\n', flush=True)",
          "open(os.path.join(read()['pidDir'], str(os.getpid())), 'w').close()",
          "send({'pid': os.getpid()})",
          "while True:",
          "    message = read()",
          "    if isinstance(message, list):",
          "        continue",
          "    if message['stream'] == '__heartbeat':",
          "        send({'command': 'sync'})",
          "        continue",
          "    sum(range(10000))",
          "    send({'command': 'ack', 'id': message['id']})");

  public ShellSink() {
    super("python3", "-c", PROGRAM);
    changeChildCWD(false);
  }

  @Override
  public void declareOutputFields(OutputFieldsDeclarer declarer) {}

  @Override
  public Map<String, Object> getComponentConfiguration() {
    return null;
  }
}
