"""The man page `stormpilot.1`, made from the table of commands and from the commands themselves: `make man`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import stormpilot
from stormpilot.cli.commands import ENTRIES
from stormpilot.cli.lazy import LazyCommand
from stormpilot.cli.panels import GROUPS, PANELS, Entry

HEAD = """\
.TH STORMPILOT 1 "" "stormpilot {version}" "User Commands"
.SH NAME
stormpilot \\- measured, traffic\\-aware placement for Apache Storm
.SH SYNOPSIS
.B stormpilot
.I COMMAND
[\\fIARGUMENTS\\fR] [\\fIOPTIONS\\fR]
.SH DESCRIPTION
stormpilot measures the traffic of Storm topologies, plans where their executors run, and has the plans applied by a
scheduler plug\\-in in Nimbus. This command runs the controller, inspects and changes a running system, and plans model
files without one.
.PP
A topology is always an argument. \\fB\\-o\\fR names the file or folder that is written, \\fB\\-f\\fR
\\fItable\\fR|\\fIjson\\fR what is printed. In JSON, fields are camelCase and moments are milliseconds since the epoch.
"""
TAIL = """\
.SH ENVIRONMENT
.TP
.B STORMPILOT_ZOOKEEPER
ZooKeeper servers, host:port,host:port, where neither \\fB\\-\\-zookeeper\\fR nor \\fB\\-\\-config\\fR is given.
.TP
.B STORMPILOT_NIMBUS_JAAS
JAAS file of the login to Nimbus, where \\fB\\-\\-nimbus\\-jaas\\fR is not given.
.TP
.B NUMBA_CACHE_DIR
Folder where compiled planners are kept, instead of beside their sources.
.TP
.B STREAMPARSE_NIMBUS
Nimbus of \\fBsubmit\\fR and \\fBprofile\\fR, host:port, where \\fB\\-\\-nimbus\\fR is not given.
.TP
.B STORMPILOT_HOME
Folder where \\fBlocal\\fR keeps Storm, instead of ~/.cache/stormpilot.
.TP
.B STORMPILOT_STATE
Folder of local clusters and their logs, instead of ~/.local/state/stormpilot.
.SH EXIT STATUS
.TP
.B 0
Done.
.TP
.B 1
Refused, or infeasible.
.TP
.B 2
Wrong usage or configuration.
.TP
.B 3
ZooKeeper, Storm, Java or Maven cannot be reached.
.TP
.B 4
There is nothing to work on: no topology, or a traffic log without usable rows.
.TP
.B 130
Interrupted (Ctrl-C), without a result.
"""


def page() -> str:
    """The man page in roff."""
    return "\n".join([HEAD.format(version=stormpilot.__version__).rstrip(), *_commands(), TAIL])


def _commands() -> Iterator[str]:
    group_panel = {g.name: g.panel for g in GROUPS}
    for panel in PANELS:
        yield f".SH {_roff(panel.upper())}"
        for entry in ENTRIES:
            if (entry.panel or group_panel[entry.name.partition(" ")[0]]) == panel:
                yield from _command(entry)


def _command(entry: Entry) -> Iterator[str]:
    command: Any = LazyCommand(entry).real
    name = f"stormpilot {entry.name}"
    with command.make_context(name, [], resilient_parsing=True) as context:
        yield f".SS {_roff(' '.join(command.get_usage(context).partition(' ')[2].split()))}"
        for i, paragraph in enumerate((command.help or "").split("\n\n")):
            yield (".PP\n" if i else "") + _roff(" ".join(paragraph.split()))
        for _, name, meaning in command.parameters(context):
            if name != "--help":
                yield f".TP\n.B {_roff(name)}\n{_roff(' '.join(meaning.split()))}"
        yield f".PP\nExample:\n.RS 4\n{_roff(entry.example)}\n.RE"


def _roff(text: str) -> str:
    """Text as it is: no request, no escape."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(?=[.'])", r"\\&", text, flags=re.MULTILINE)


def main() -> None:
    """Write the page to the file that is named."""
    (name,) = sys.argv[1:]
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
