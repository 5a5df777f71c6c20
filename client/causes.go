package client

import (
	"context"
	"errors"
)

// Why a call is indeterminate or a session ended, when no error of another
// package says it. They carry no class: a CallError does.
var (
	errLateGrant  = errors.New("the grant came after the deadline and is being given back")
	errNoVerdict  = errors.New("the server gave no verdict in time; the session was closed")
	errNoAnswer   = errors.New("no answer within 5 s")
	errNeverSent  = errors.New("it was never sent")
	errAbandoned  = errors.New("the session was closed with the last attempt on it abandoned")
	errManyLeft   = errors.New("the session was closed with too many abandoned attempts on it")
	errRetired    = errors.New("the session was closed after the leader moved")
	errConnecting = errors.New("the connection was not established in time")
	errWrongKey   = errors.New("the server answered an attempt with another key")
	errLastReply  = errors.New("the server closed the session inside a reply")
)

// contextError is a context's error together with its cause when they differ.
type contextError struct{ err, cause error }

func (e contextError) Error() string   { return e.err.Error() + ": " + e.cause.Error() }
func (e contextError) Unwrap() []error { return []error{e.err, e.cause} }

// causeOf returns why ctx, which is done, ended.
func causeOf(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == nil || errors.Is(err, cause) {
		return err
	}
	return contextError{err, cause}
}

// unavailableError is ErrUnavailable with the last reason.
type unavailableError struct{ reason error }

func (e unavailableError) Error() string   { return ErrUnavailable.Error() + ": " + e.reason.Error() }
func (e unavailableError) Unwrap() []error { return []error{ErrUnavailable, e.reason} }
