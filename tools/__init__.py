"""Programs for developers and for releases: what `make dist`, `make docs` and `make tools` run."""
