"""Submission: a streamparse project is sent to Nimbus by raw Thrift, without lein, ssh or fabric.

`project` reads what the project says, `options` decides between its sources as `sparse submit` does, `jar` packs
`src/`, `assembly` makes the Thrift topology (with load reporting, unless told not to), `submission` sends it.
"""

from stormpilot.submit.submission import Submission, prepare, submit_topology

__all__ = ["Submission", "prepare", "submit_topology"]
