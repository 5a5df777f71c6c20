package client_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ticketing/client"
	"ticketing/client/scripted"
)

// errorRows are what docs/client.md says of errors by name: how to get one, and
// its class there.
var errorRows = []struct {
	name  string // as in the table
	of    string
	class client.Class
	want  error
	get   func(r *rig) error
}{
	{"ErrTimeout", "acquire", client.ClassNotGranted, client.ErrTimeout, func(r *rig) error {
		r.srv.Script(scripted.Timeout())
		return r.acquire(r.ctx, "k").err
	}},
	{"ErrTimeout", "acquire", client.ClassNotExecuted, client.ErrTimeout, func(r *rig) error {
		r.srv.HangDials(math.MaxInt8)
		return r.acquire(r.ctx, "k", client.Wait(sec)).err
	}},
	{"ErrUnavailable", "acquire", client.ClassNotExecuted, client.ErrUnavailable, func(r *rig) error {
		r.srv.RefuseDials(math.MaxInt8)
		return r.acquire(r.ctx, "k", client.Wait(sec)).err
	}},
	{"ErrBusy", "acquire", client.ClassNotGranted, client.ErrBusy, func(r *rig) error {
		r.srv.Script(scripted.Busy())
		return r.acquire(r.ctx, "k").err
	}},
	{"ErrIndeterminate", "both", client.ClassIndeterminate, client.ErrIndeterminate, func(r *rig) error {
		r.srv.Script(scripted.CutAfter())
		return r.acquire(r.ctx, "k").err
	}},
	{"ErrNotHeld", "release", client.ClassNotGranted, client.ErrNotHeld, func(r *rig) error {
		return r.c.Release(r.ctx, "k", 1)
	}},
	{"ErrClosed", "both", client.ClassNotExecuted, client.ErrClosed, func(r *rig) error {
		_ = r.c.Close()
		return r.acquire(r.ctx, "k").err
	}},
	{"ErrOwnersExhausted", "acquire", client.ClassNotExecuted, client.ErrOwnersExhausted, func(r *rig) error {
		r.c.SetLastOwner(math.MaxUint64)
		return r.acquire(r.ctx, "k").err
	}},
	{"context.Canceled", "both", client.ClassIndeterminate, context.Canceled, func(r *rig) error {
		r.srv.Script(scripted.Silent())
		ctx, cancel := context.WithCancel(r.ctx)
		ch := r.call(ctx, "k")
		r.at(0)
		cancel()
		return (<-ch).err
	}},
	{"ErrLeaseExpired", "–", client.ClassNone, client.ErrLeaseExpired, func(r *rig) error {
		ctx, cancel := r.must("k", client.Lease(sec)).Context(r.ctx)
		defer cancel()
		<-ctx.Done()
		return context.Cause(ctx)
	}},
}

func TestClient_4_ErrorsAreAsDocumented(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "docs", "client.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range errorRows {
		class := strings.TrimPrefix(row.class.String(), "certainly ")
		documented := false
		for line := range strings.Lines(string(doc)) {
			cells := strings.Split(line, " | ")
			documented = documented || len(cells) == 4 && strings.Contains(cells[0], "`"+row.name+"`") &&
				cells[1] == row.of && strings.Contains(cells[2], class)
		}
		if !documented {
			t.Errorf("docs/client.md has no row for %s of %s, %s", row.name, row.of, class)
		}
		bubble(t, nil, func(r *rig) {
			err := row.get(r)
			if !errors.Is(err, row.want) || client.ClassOf(err) != row.class {
				t.Errorf("%s: got %v of class %v", row.name, err, client.ClassOf(err))
			}
		})
	}
}

func TestClient_4_ErrorsSayTheirClass(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		r.srv.Script(scripted.Timeout(), scripted.Error("bad_key"))
		for _, want := range []string{
			`ticketing: acquire "k": the wait ended without a grant (not granted)`,
			`ticketing: acquire "k": indeterminate: the server says "bad_key"`,
		} {
			if got := r.acquire(r.ctx, "k").err; got.Error() != want {
				t.Errorf("got  %v\nwant %s", got, want)
			}
		}
		_, err := r.c.Acquire(r.ctx, "a b", 0)
		if want := `ticketing: acquire "a b": key "a b" contains a space (certainly not executed)`; err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	})
	wrapped := fmt.Errorf("mine: %w", &client.ReleaseError{Err: &client.CallError{Class: client.ClassIndeterminate, Err: client.ErrIndeterminate}})
	if client.ClassOf(wrapped) != client.ClassIndeterminate {
		t.Error("a class is not found behind other errors")
	}
	if !errors.Is(client.ErrUnavailable, client.ErrTimeout) || errors.Is(client.ErrTimeout, client.ErrUnavailable) {
		t.Error("ErrUnavailable is a special ErrTimeout")
	}
	for class, want := range map[client.Class]string{
		client.ClassNone: "none", client.ClassNotGranted: "not granted",
		client.ClassNotExecuted: "certainly not executed", client.ClassIndeterminate: "indeterminate",
	} {
		if class.String() != want {
			t.Errorf("class %d is %q", class, class)
		}
	}
}
