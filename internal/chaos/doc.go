// Package chaos runs a cluster of real servers under load while it breaks
// things, and judges what the clients saw. It owns the namespace the servers
// live in, the faults, the load through the official client, and the order of a
// run; package history, below it, owns the record and the checkers.
//
// A run takes place in a process of its own (space.go): in a network namespace
// that has only a loopback interface, where node i is 127.0.1.i and client j is
// 127.0.2.j, so that rules of nftables can part any two of them (net.go); in a
// mount namespace, where each node's disk is a small file system that can be
// filled (node.go); and in a process namespace, so that nothing outlives it.
//
// Reading path: run.go (a run from end to end), load.go (what clients do),
// nemesis.go and faults.go (what is done to the servers), watch.go (what
// servers say of themselves), report.go. broken.go builds servers with a known
// mistake, to show that a run finds it; failover.go measures how long it takes
// until there is a new leader.
//
// It never looks into a server other than by its ports, and shares no code with
// one. `make chaos`, `make chaos-broken` and `make failover` call it through
// internal/chaos/run, and its own tests.
package chaos
