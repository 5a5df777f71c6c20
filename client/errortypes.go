package client

import (
	"fmt"
	"strconv"
	"time"
)

// The types below are returned as pointers, inside a *CallError; errors.As
// finds them by pointer and by value.

// UnsupportedDurationError: an input duration is out of its range (§1).
type UnsupportedDurationError struct {
	Field           string // "wait", "lease" or "min work budget"
	Value, Min, Max time.Duration
}

func (e UnsupportedDurationError) Error() string {
	return fmt.Sprintf("%s of %v is not within %v to %v", e.Field, e.Value, e.Min, e.Max)
}

// As fills in a target of the value type.
func (e *UnsupportedDurationError) As(target any) bool { return fill(*e, target) }

// InsufficientLeaseError: the lease does not cover the min work budget. With
// Left equal to Lease the inputs contradict each other and nothing was sent
// (class: certainly not executed). Otherwise the grant came with too little of
// it left and is being given back (class: not granted).
type InsufficientLeaseError struct {
	Lease, Budget, Left time.Duration
}

func (e InsufficientLeaseError) Error() string {
	return fmt.Sprintf("%v left of a lease of %v is less than the min work budget of %v", e.Left, e.Lease, e.Budget)
}

// As fills in a target of the value type.
func (e *InsufficientLeaseError) As(target any) bool { return fill(*e, target) }

// InvalidKeyError: the key is not one the protocol carries (§1).
type InvalidKeyError struct{ Key, Reason string }

func (e InvalidKeyError) Error() string {
	return "key " + strconv.QuoteToASCII(e.Key) + " " + e.Reason
}

// As fills in a target of the value type.
func (e *InvalidKeyError) As(target any) bool { return fill(*e, target) }

// ServerError: the server ended the session with E and this reason (protocol §6).
type ServerError struct{ Reason string }

func (e ServerError) Error() string { return "the server says " + strconv.Quote(e.Reason) }

// As fills in a target of the value type.
func (e *ServerError) As(target any) bool { return fill(*e, target) }

// HandshakeError: a server was reached, but client and server do not agree on
// secret or TLS. Only a change of settings helps.
type HandshakeError struct {
	Addr   string
	Reason string
	Err    error // of TLS; nil otherwise
}

func (e *HandshakeError) Error() string {
	text := "handshake with " + e.Addr + ": " + e.Reason
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns Err.
func (e *HandshakeError) Unwrap() error { return e.Err }

// fill is errors.As for a target that wants the value, not the pointer.
func fill[T any](value T, target any) bool {
	p, ok := target.(*T)
	if ok {
		*p = value
	}
	return ok
}
