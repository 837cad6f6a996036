"""Start a command from a small process and tell what it took: `python -I -S launch.py LIMIT_S COMMAND...`.

The peak memory that the kernel tells of a child begins with that of the process that it was forked from; started from
the benchmark itself, which holds large models, it would be the benchmark's. Prints seconds, peak MB, exit
code and CPU seconds.
"""

import os
import signal
import sys
import time


def main() -> None:
    """Run, wait, print; the command is killed after the limit (exit code -9)."""
    limit_s, command = float(sys.argv[1]), sys.argv[2:]
    begin = time.perf_counter()
    child = os.posix_spawnp(command[0], command, os.environ)
    signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGKILL))
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    _, status, usage = os.wait4(child, 0)
    seconds = time.perf_counter() - begin
    cpu_s = usage.ru_utime + usage.ru_stime
    print(seconds, usage.ru_maxrss / 1024, os.waitstatus_to_exitcode(status), cpu_s)


if __name__ == "__main__":
    main()
