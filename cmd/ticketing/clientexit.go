package main

import (
	"errors"
	"strings"

	"ticketing/client"
)

// callFailed turns the error of a call on c into the command's own.
func callFailed(c *client.Client, err error) error {
	return &exitError{callCode(err, c.Stats().Connects > 0), callText(err)}
}

// callText drops the prefix that a message on stderr gets anyway.
func callText(err error) error {
	return errors.New(strings.TrimPrefix(err.Error(), "ticketing: "))
}

// callCode is the exit code for the error of a call. A release that is not
// answered for want of a session may still have been sent over an earlier one;
// connected says that there was one.
func callCode(err error, connected bool) int {
	class := client.ClassOf(err)
	switch {
	case errors.Is(err, client.ErrUnavailable) && (class == client.ClassNotExecuted || !connected):
		return exitNoSession
	case class == client.ClassIndeterminate:
		return exitIndeterminate
	case errors.Is(err, client.ErrNotHeld):
		return exitNotHeld
	case errors.Is(err, client.ErrBusy):
		return exitBusy
	case errors.Is(err, client.ErrTimeout):
		return exitTimeout
	case class == client.ClassNotGranted:
		return exitTimeout // granted with less of the lease left than asked for, and given back
	}
	return exitSetting // an input that the client does not send
}
