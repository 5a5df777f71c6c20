// Package loop is the server: it accepts connections, speaks the protocol on
// them and drives the shards. It is the only package that knows gnet.
//
// A Server owns N loops. Loop i is one gnet event loop (one goroutine on one
// epoll) together with shard i: everything a loop owns (sessions, timers,
// shard, counters) is touched by its goroutine alone and needs no lock, but for
// shards that others visit while they are free (visit.go). A frame
// whose key lives in another shard travels there in a mailbox (mailbox.go) and
// its answer comes back in the same batch.
//
// A callback of gnet is a turn (turn.go): the clock is read once, frames are
// parsed in place, replies gather in the session's batch, and at the end of the
// turn each session's batch is written at once, the mailboxes are sent, and the
// loop's timerfd is armed for the next deadline.
//
// The life of a session:
//
//		handshaking ──right digest──▶ open ──E decided──▶ failing ──E sent──▶ lingering ──▶ gone
//		     │  (only with a secret)   │                     ▲                    ▲
//		     ├──wrong, too long────────┼─────────────────────┘                    │
//		     ├──10 s: closed, nothing sent ──▶ gone                               │
//		     └─────────────────────────┴──client's FIN──▶ half-closed ──answered──┘
//
//	  - handshaking: the challenge is out, the digest is awaited (§8). Left within 10 s.
//	  - open: frames are parsed and answered. Left by an error, the client's end or the drain.
//	  - failing: an E is due (§6). Input is discarded; what other loops still decide for this
//	    session is awaited, then the E goes out last. Left at the latest after 10 s.
//	  - lingering: the E is sent and the write side is shut. Input is discarded until the client
//	    closes, or 1 s, or 64 KiB, so that no RST overtakes the E.
//	  - half-closed: the client sent its last byte while answers were outstanding; gnet has let go
//	    of the connection, a duplicate of its descriptor carries the rest (tail.go).
//
// With TLS a handshake comes before all of this, on a goroutine of its own, and
// records stand between the socket and the frames (tls.go).
//
// As a node of a cluster a server gives what its shards decide to a Replica and
// withholds the answers until that confirms them (replica.go, withheld.go); who
// leads is told to it by Lead, Depose and Follow (lead.go, deposed.go).
//
// The package never decides who holds a key (package shard), never reads a
// frame's bytes itself (package codec) and never serves HTTP (internal/admin).
// cmd/ticketing calls it.
package loop
