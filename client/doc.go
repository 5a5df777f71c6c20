// Package client is the official Ticketing client. It turns the wire of
// protocol.md into calls that are safe to hold a critical section on: who gets
// a [Ticket] may enter; who gets an error must not, and knows why.
//
//	c, err := client.New(client.Config{Addrs: []string{"127.0.0.1:7400"}})
//	...
//	defer c.Close()
//	err = c.Do(ctx, "invoice-4711", 2*time.Second, func(ctx context.Context, t *client.Ticket) error {
//		return charge(ctx, t.Token())
//	})
//
// Every error of a call is a [CallError] with one [Class]: not granted,
// certainly not executed, or indeterminate. docs/client.md is the guide, with a
// page on what to do on each error and the SQL of a fencing check; its second
// part holds the rules §1 to §4 that the comments here refer to.
//
// The package owns its connections, the deadlines of calls, and what becomes of
// a grant that nobody can use any more. It never renews a lease, never sends an
// acquire again of which a byte may have left, never takes silence for success,
// and logs nothing unless it was given a logger. Programs call it, and the
// client commands of cmd/ticketing. Package scripted, beside it, is a server
// for tests.
//
// # How it works
//
// A call is queued, and a session's writer takes all that is queued at once and
// sends it in one Write. The session's reader matches the replies. One keeper
// goroutine ends what is overdue, one connector goroutine opens sessions.
//
//	          submit                encode                     reply
//	caller ───────────▶ queued ──────────────▶ flying ──────────────────▶ settled ──▶ caller
//	                      │  ▲                   │ │                         ▲
//	             the      │  └───────────────────┘ │ no verdict in time,     │
//	             caller   │   M, E no_leader, ...: │ connection broken       │
//	             leaves   │   certainly not        └─────────────────────────┘
//	                      │   executed             │ the caller leaves
//	                      ▼                        ▼
//	                   dropped                 abandoned ──▶ A that comes is given back
//
// queued: certainly unsent. flying: a byte may have left. Only the writer moves
// a call from the first to the second, under the session's lock and right
// before its Write; when that Write fails, the number of bytes it passed on
// says which frames are certainly unsent.
//
// Reading path: acquire.go (a call from end to end), client.go (queue and
// waking), writer.go, reader.go, session.go (what becomes of the unanswered),
// keeper.go, connector.go and route.go (where to connect), release.go,
// ticket.go, do.go, close.go.
//
// Locks: Client.mu guards the queue, the list of sessions and the route;
// session.mu guards a session's tables and the state of calls that fly on it.
// Neither is taken under the other, and nobody is woken under either.
package client
