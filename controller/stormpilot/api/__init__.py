"""HTTP: everything that the command line reads and does, a web page, and what Prometheus scrapes.

- `service.py`: what the daemon starts, tells of its cycles, and stops; nothing in here can disturb a cycle.
- `server.py`: uvicorn on a thread of its own. `app.py`: the routes put together.
- `reads.py`, `verbs.py`, `whatif.py`: the routes. `source.py`: where they read. `problems.py`: errors as problem JSON.
- `tokens.py`: who may do what. `guard.py`: asks that for every request.
- `metrics.py`: what `/metrics` says. `health.py`: `/healthz` and `/readyz`; `probe.py` asks the latter.
- `pages/`: the web page and the page of the API's routes; nothing in them is loaded from elsewhere.
"""
