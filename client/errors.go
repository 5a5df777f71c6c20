package client

import (
	"errors"
	"fmt"
	"strings"
)

// Class answers "did it happen?". Every error of a call has exactly one.
type Class uint8

const (
	// ClassNone: not the error of a call.
	ClassNone Class = iota
	// ClassNotGranted: the server decided, and the answer is no: nothing is
	// held by this call. Final.
	ClassNotGranted
	// ClassNotExecuted: certainly nothing was done: not one byte of the
	// request can have left, or the server said so. It may be tried again.
	ClassNotExecuted
	// ClassIndeterminate: it may have happened and it may not. The critical
	// section must not be entered; an unseen grant returns with its lease.
	ClassIndeterminate
)

// String names the class as the documentation does.
func (c Class) String() string {
	switch c {
	case ClassNotGranted:
		return "not granted"
	case ClassNotExecuted:
		return "certainly not executed"
	case ClassIndeterminate:
		return "indeterminate"
	}
	return "none"
}

// ClassOf returns the class of an error that Acquire, Do, Client.Release or
// Ticket.Release returned, and ClassNone for any other error. For an error of
// Do look for a *ReleaseError first: with it, fn did run.
func ClassOf(err error) Class {
	if call, ok := errors.AsType[*CallError](err); ok {
		return call.Class
	}
	return ClassNone
}

// What a call can end with, for errors.Is.
var (
	// ErrTimeout: the wait ended without a grant. Class: not granted when the
	// server said so (T); certainly not executed when the attempt was never
	// sent.
	ErrTimeout = errors.New("the wait ended without a grant")
	// ErrBusy: a queue or a capacity of the server is full (B). Class: not
	// granted.
	ErrBusy = errors.New("a limit of the server is reached")
	// ErrUnavailable: no session could be had in time. It wraps the last
	// reason. An ErrUnavailable is an ErrTimeout too. Class: certainly not
	// executed, for an acquire.
	ErrUnavailable error = unavailable{}
	// ErrIndeterminate: it is not known whether it happened. The critical
	// section must not be entered. It stands for ClassIndeterminate.
	ErrIndeterminate = errors.New("indeterminate")
	// ErrNotHeld: the token no longer held the key when it was released (N):
	// the lease had ended, or it was released before. Class: not granted.
	ErrNotHeld = errors.New("the token did not hold the key")
	// ErrClosed: the client was closed. Class: certainly not executed, or
	// indeterminate when the request may have been sent.
	ErrClosed = errors.New("the client is closed")
	// ErrOwnersExhausted: all 2^64-1 attempt numbers of this client are used.
	// Class: certainly not executed. A new client starts over.
	ErrOwnersExhausted = errors.New("the client has no attempt number left")

	// ErrLeaseExpired is the cause of a Ticket's context at its deadline. It
	// is not the error of a call.
	ErrLeaseExpired = errors.New("ticketing: the lease has expired")

	// ErrNotGranted stands for ClassNotGranted in errors.Is.
	ErrNotGranted = errors.New("not granted")
	// ErrNotExecuted stands for ClassNotExecuted in errors.Is.
	ErrNotExecuted = errors.New("certainly not executed")
)

// unavailable is a special ErrTimeout.
type unavailable struct{}

func (unavailable) Error() string { return "no session with a server could be had" }

func (unavailable) Is(target error) bool { return target == ErrTimeout }

// CallError is the error of every call that did not do what it was asked.
// errors.Is sees its class, its Err and its Cause; errors.As finds the types
// below in it.
type CallError struct {
	Op    string // "acquire" or "release"
	Key   string
	Class Class
	Err   error // what it ended with: one of the variables above, one of the types below, or context.Canceled
	Cause error // why, when there is more to say: a context's error, a broken connection, a *ServerError
	// Retried: a release was sent more than once because an earlier answer did
	// not come. ErrNotHeld may then be the answer to its own success.
	Retried bool
}

// Error says operation, key, class, what and why.
func (e *CallError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "ticketing: %s %q: ", e.Op, e.Key)
	if e.Err == ErrIndeterminate {
		b.WriteString("indeterminate")
	} else {
		fmt.Fprintf(&b, "%v (%v)", e.Err, e.Class)
	}
	if e.Cause != nil {
		fmt.Fprintf(&b, ": %v", e.Cause)
	}
	if e.Retried {
		b.WriteString(": it was sent more than once, so an earlier one may have released the key")
	}
	return b.String()
}

// Unwrap returns Err and Cause.
func (e *CallError) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Err}
	}
	return []error{e.Err, e.Cause}
}

// Is matches the class: ErrNotGranted, ErrNotExecuted or ErrIndeterminate.
func (e *CallError) Is(target error) bool {
	switch e.Class {
	case ClassNotGranted:
		return target == ErrNotGranted
	case ClassNotExecuted:
		return target == ErrNotExecuted
	case ClassIndeterminate:
		return target == ErrIndeterminate
	}
	return false
}

// ReleaseError is what Do returns when fn ran and the release behind it
// failed: the work was done (fn's own error, if any, is joined to this one),
// but the key may be held until its lease ends, or, with ErrNotHeld, the lease
// ended before the work did.
type ReleaseError struct{ Err error }

func (e *ReleaseError) Error() string {
	return "the work has run, its release failed: " + e.Err.Error()
}

// Unwrap returns the error of the release.
func (e *ReleaseError) Unwrap() error { return e.Err }
