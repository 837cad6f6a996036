"""A Storm cluster on this machine without Docker: ZooKeeper, Nimbus and supervisors as processes on loopback.

`spec` says what is wanted, `home` assembles Storm from Maven artifacts, `build` turns a spec into folders, files and
command lines, `state` is what is written down about a cluster, `keeper` is the parent process of the daemons,
`forwarder` gives several Nimbuses one port, `processes` finds and ends every process of one cluster, and `cluster` puts
them together: `LocalCluster.up(ClusterSpec())`.
"""
