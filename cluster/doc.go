// Package cluster is the engine that keeps several nodes of the server in
// agreement. It owns the goroutine that drives the consensus (cluster/core),
// the write-ahead log and the snapshots on disk, the connections between the
// nodes, and a node's identity.
//
// It decides nothing about locks: the leader's shards do, in package loop, and
// the engine replicates what they decided and says when it has. Package
// cmd/ticketing joins the two.
package cluster
