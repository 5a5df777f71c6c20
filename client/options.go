package client

import (
	"strings"
	"time"

	"ticketing/codec"
)

// Option changes one acquire. The zero Option changes nothing.
type Option struct {
	field optionField
	value time.Duration
}

type optionField uint8

const (
	optionNone optionField = iota
	optionWait
	optionLease
)

// Wait is how long the attempt may wait for its turn: 0 to 255 s, rounded up
// to whole seconds; 30 s unless given. 0 is one immediate attempt that never
// queues at the server; reaching the server has 5 s then (§2.4).
func Wait(d time.Duration) Option { return Option{optionWait, d} }

// Lease is how long the grant lasts unless it is released: 1 to 250 s, rounded
// up to whole seconds; 30 s unless given. There is no renewal.
func Lease(d time.Duration) Option { return Option{optionLease, d} }

// terms are the inputs of one acquire after §1.
type terms struct {
	wait  time.Duration // whole seconds, 0..255
	lease time.Duration // whole seconds, 1..250
}

// settleTerms carries out §1.
func settleTerms(key string, budget time.Duration, opts []Option) (terms, error) {
	t := terms{wait: defaultWait, lease: defaultLease}
	for _, o := range opts {
		switch o.field {
		case optionWait:
			t.wait = o.value
		case optionLease:
			t.lease = o.value
		}
	}
	if t.wait < 0 || ceilSeconds(t.wait) > codec.MaxWait {
		return t, &UnsupportedDurationError{Field: "wait", Value: t.wait, Min: 0, Max: maxWait}
	}
	if t.lease <= 0 || ceilSeconds(t.lease) > codec.MaxLease {
		return t, &UnsupportedDurationError{Field: "lease", Value: t.lease, Min: minLease, Max: maxLease}
	}
	if budget < 0 || budget > maxLease {
		return t, &UnsupportedDurationError{Field: "min work budget", Value: budget, Min: 0, Max: maxLease}
	}
	t.wait = time.Duration(ceilSeconds(t.wait)) * time.Second
	t.lease = time.Duration(ceilSeconds(t.lease)) * time.Second
	if budget > t.lease {
		return t, &InsufficientLeaseError{Lease: t.lease, Budget: budget, Left: t.lease}
	}
	return t, checkKey(key)
}

// checkKey is protocol §2, and no '\r' (§1): a key read from a line that ended
// in "\r\n" would silently be another key.
func checkKey(key string) error {
	reason := ""
	switch {
	case key == "":
		reason = "is empty"
	case len(key) > codec.MaxKey:
		reason = "is longer than 128 bytes"
	case strings.IndexByte(key, '\r') >= 0:
		reason = "contains a carriage return"
	case codec.CheckKey(key):
		return nil
	case strings.IndexByte(key, ' ') >= 0:
		reason = "contains a space"
	case strings.IndexByte(key, '\n') >= 0:
		reason = "contains a newline"
	default:
		reason = "is not valid UTF-8"
	}
	return &InvalidKeyError{Key: key, Reason: reason}
}
