package main

import (
	"errors"
	"strconv"
	"strings"
	"unicode"

	"github.com/alecthomas/kong"
)

// Exit codes; docs/operations.md lists them for users.
const (
	exitDone        = 0
	exitEnvironment = 1 // the settings are right and the machine says no
	exitSetting     = 2 // a bad setting, flag or command: nothing was started

	// Of the client commands.
	exitTimeout       = 10 // not granted in time
	exitBusy          = 11
	exitNotHeld       = 12
	exitIndeterminate = 13
	exitNoSession     = 14  // nothing was asked of a server
	exitLeaseEnded    = 15  // lock: the lease ended while its command still ran
	exitSignal        = 128 // added to the number of the signal that ended it
)

// exitError is an error that decides the exit code.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// statusError is an exit code that says all there is to say: no message comes
// with it.
type statusError int

func (e statusError) Error() string { return "exit status " + strconv.Itoa(int(e)) }

func settingFailed(err error) error     { return &exitError{exitSetting, err} }
func environmentFailed(err error) error { return &exitError{exitEnvironment, err} }

// exitCode returns what the process ends with after err.
func exitCode(err error) int {
	var chosen *exitError
	var usage *kong.ParseError
	var status statusError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &status):
		return int(status)
	case errors.As(err, &chosen):
		return chosen.code
	case errors.As(err, &usage):
		return exitSetting
	}
	return exitEnvironment
}

// oneLine escapes what would break a message's line or the terminal it goes to:
// the text may hold a value that somebody else chose.
func oneLine(text string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	return b.String()
}
