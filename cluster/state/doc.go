// Package state is what the nodes of a cluster agree on: which token holds
// which key, the last token issued, and who the members are. It also owns the
// bytes in which that is replicated and kept: an entry of the log carries a
// batch of records (shard.Record) or one change of a member, a snapshot carries
// everything.
//
// A Machine applies the log's entries in order. What it becomes depends on
// their bytes, indexes and terms and on nothing else: there is no clock, no
// environment and no order of a map in it, so that machines that applied the
// same entries are equal, and Hash says so. It knows no wait, no queue and no
// deadline; those live in the leader's shards alone. It starts no goroutine,
// takes no lock, logs nothing and does no I/O.
//
// An entry is applied whole or not at all. One whose records do not all fit the
// state (ErrMisfit) changes nothing but index and term, on every node alike;
// the leader that proposed it must step down, for its shards are not what the
// cluster agreed on.
//
// Tokens reach the log out of order, since each loop's turn is an item of its
// own. So the machine remembers which tokens below the counter have not come
// yet (gaps.go) and accepts each once. Tokens that an earlier term left behind
// are lost with it.
//
// Package cluster/core calls it, on one goroutine.
package state
