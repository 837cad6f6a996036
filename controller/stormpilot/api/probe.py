"""`python -m stormpilot.api.probe controller.yaml`: is the controller of this file ready? For health checks.

It asks `/readyz` where the configuration says, by TLS if it has a certificate, and prints the answer; 0 if it is ready,
or serves no API, else 1.
"""

from __future__ import annotations

import http.client
import json
import ssl
import sys
from pathlib import Path

from stormpilot.config import ApiSection, load
from stormpilot.errors import StormpilotError

TIMEOUT_S = 4.0
ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Addresses to bind that mean every one of this machine, and what reaches them from here."""


def main() -> int:
    """The exit code."""
    try:
        ready, text = asked(load(Path(sys.argv[1])).api)
    except IndexError:
        ready, text = False, "usage: python -m stormpilot.api.probe controller.yaml"
    except StormpilotError as e:
        ready, text = False, str(e)
    print(text)
    return 0 if ready else 1


def asked(section: ApiSection) -> tuple[bool, str]:
    """Whether the controller that serves so is ready, and its sentence."""
    if not section.enabled or not section.port:
        return True, "no API at a known port (api.enabled, api.port): it is not asked"
    host = ANY.get(section.host, section.host)
    connection = http.client.HTTPConnection(host, section.port, timeout=TIMEOUT_S)
    if section.cert_file is not None:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # of our own address: whoever serves there
        connection = http.client.HTTPSConnection(host, section.port, timeout=TIMEOUT_S, context=context)
    try:
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        return answer.status == 200, str(json.loads(answer.read())["text"])
    except (OSError, http.client.HTTPException, ValueError, KeyError) as e:
        return False, f"{host}:{section.port} does not answer: {e}"
    finally:
        connection.close()


if __name__ == "__main__":
    sys.exit(main())
