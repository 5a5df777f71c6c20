package client_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ticketing/client"
	"ticketing/client/scripted"
)

// connect makes a client of a server in memory, so that the examples run
// anywhere. A program gives the addresses of its server and no DialContext:
//
//	client.New(client.Config{Addrs: []string{"127.0.0.1:7400"}})
func connect(srv *scripted.Server) *client.Client {
	c, err := client.New(client.Config{Addrs: []string{"lock.example:7400"}, DialContext: srv.DialContext})
	if err != nil {
		panic(err)
	}
	return c
}

// Do is the short way: fn runs while the key is held, and the key is released
// whatever fn does.
func ExampleClient_Do() {
	srv := scripted.New()
	defer srv.Close()
	c := connect(srv)
	defer c.Close()

	// The work needs 2 s of the lease, its commit included.
	err := c.Do(context.Background(), "invoice-4711", 2*time.Second,
		func(ctx context.Context, t *client.Ticket) error {
			fmt.Println("charging under token", t.Token())
			return nil // give ctx and t.Token() to everything that writes
		},
		client.Wait(10*time.Second), client.Lease(5*time.Second))
	fmt.Println("error:", err)
	// Output:
	// charging under token 1
	// error: <nil>
}

// Acquire and Release by hand. The deferred Release works after ctx has been
// cancelled too.
func ExampleClient_Acquire() {
	srv := scripted.New()
	defer srv.Close()
	c := connect(srv)
	defer c.Close()

	ctx := context.Background()
	ticket, err := c.Acquire(ctx, "nightly-report", time.Second, client.Wait(0)) // now or not at all
	if err != nil {
		fmt.Println("not tonight:", err)
		return
	}
	defer ticket.Release(ctx)
	fmt.Println("holding", ticket.Key())

	_, err = c.Acquire(ctx, "nightly-report", time.Second, client.Wait(0))
	fmt.Println(err)
	fmt.Println("somebody else has it:", errors.Is(err, client.ErrTimeout))
	// Output:
	// holding nightly-report
	// ticketing: acquire "nightly-report": the wait ended without a grant (not granted)
	// somebody else has it: true
}

// Ticket.Context ends the work when the lease does.
func ExampleTicket_Context() {
	srv := scripted.New()
	defer srv.Close()
	c := connect(srv)
	defer c.Close()

	ticket, err := c.Acquire(context.Background(), "slow", 0, client.Lease(time.Second))
	if err != nil {
		panic(err)
	}
	ctx, cancel := ticket.Context(context.Background())
	defer cancel()
	<-ctx.Done() // work that takes too long
	fmt.Println(context.Cause(ctx) == client.ErrLeaseExpired)
	// Output: true
}

// The token goes along with every write; the store rejects one that is older
// than the newest it has seen. docs/client.md has the SQL.
func ExampleTicket_Token() {
	srv := scripted.New()
	defer srv.Close()
	c := connect(srv)
	defer c.Close()

	var newest uint64 // in the store
	write := func(token uint64) error {
		if token < newest {
			return fmt.Errorf("token %d is stale: %d has written", token, newest)
		}
		newest = token
		return nil
	}

	ctx := context.Background()
	first, _ := c.Acquire(ctx, "account-1", 0)
	_ = first.Release(ctx) // or its lease ends while its holder is paused
	second, _ := c.Acquire(ctx, "account-1", 0)
	fmt.Println("second:", write(second.Token()))
	fmt.Println("first:", write(first.Token()))
	// Output:
	// second: <nil>
	// first: token 1 is stale: 2 has written
}

// What to do depends on the class.
func ExampleClassOf() {
	srv := scripted.New()
	defer srv.Close()
	c := connect(srv)
	defer c.Close()

	decide := func(err error) string {
		switch client.ClassOf(err) {
		case client.ClassNotGranted:
			return "somebody else has it, or the server is full: try later"
		case client.ClassNotExecuted:
			return "nothing happened: try again"
		case client.ClassIndeterminate:
			return "do not enter; the key may be held until a lease ends"
		}
		return "go ahead"
	}

	srv.Script(scripted.Timeout(), scripted.Busy(), scripted.CutAfter())
	ctx := context.Background()
	for range 3 {
		_, err := c.Acquire(ctx, "k", 0)
		fmt.Println(decide(err))
	}
	_, err := c.Acquire(ctx, "k", time.Hour) // no lease is that long
	fmt.Println(decide(err))
	_, err = c.Acquire(ctx, "k", 0)
	fmt.Println(decide(err))
	// Output:
	// somebody else has it, or the server is full: try later
	// somebody else has it, or the server is full: try later
	// do not enter; the key may be held until a lease ends
	// nothing happened: try again
	// go ahead
}

// A token that was kept elsewhere can be released by anybody who knows it.
func ExampleClient_Release() {
	srv := scripted.New()
	defer srv.Close()
	c := connect(srv)
	defer c.Close()

	ctx := context.Background()
	ticket, _ := c.Acquire(ctx, "deploy", 0)
	token := ticket.Token() // written down; the process ends, another one reads it

	fmt.Println(c.Release(ctx, "deploy", token))
	fmt.Println(errors.Is(c.Release(ctx, "deploy", token), client.ErrNotHeld))
	// Output:
	// <nil>
	// true
}
