"""`make dist`: what is shipped, with checksums, an SBOM and the licences."""
