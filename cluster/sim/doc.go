// Package sim is a simulation of a cluster, in its tests: the real consensus
// (cluster/core), the real replicated state and several real shards on each
// node, and everything around them made of one seed: a network that drops,
// delays, doubles, reorders and cuts, disks that take their time, crashes that
// lose what was not yet on the disk, pauses, transfers of the lead, changes of
// the members, and clients that remember what they were told.
//
// It judges what clients may believe: that nobody else holds the key during
// their lease, that tokens rise, that an answer which was definite stays true;
// and that the nodes have the same state at the same entry, and that nothing
// submitted is forgotten. A run depends on its seed alone. It owns no code that
// a server runs, and nothing calls it.
package sim
