package main

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// The types of settings. Each checks its value against the flag's range tag,
// the same text that --help and docs/operations.md show, so that what is
// promised and what is checked cannot differ.
type (
	count    int           // range "1..256"
	span     time.Duration // range "0..5m"
	word     string        // range "text/json"
	toggle   bool          // range "true/false"
	hostPort string        // syntax only; may be empty when it has the tag "empty"
	text     struct {      // anything; told apart from not given
		given bool
		value string
	}
)

// settingError names a setting whose value is not allowed.
type settingError struct {
	setting string // "MAX_KEYS (--max-keys)"
	value   string // quoted; empty: not told, as of a secret
	problem string // why, or what is allowed
}

func (e *settingError) Error() string {
	if e.value == "" {
		return e.setting + " " + e.problem
	}
	value := e.value
	if len(value) > shownValue {
		value = strings.ToValidUTF8(value[:shownValue], "") + "...\""
	}
	return e.setting + " is " + value + ": " + e.problem
}

// shownValue is how many bytes of a refused value an error shows: enough to
// find it again, and one line.
const shownValue = 100

// How errors call the settings that more than their own check looks at.
const (
	listenSetting      = "LISTEN_ADDR (--listen-addr)"
	adminSetting       = "ADMIN_ADDR (--admin-addr)"
	connectionsSetting = "MAX_CONNECTIONS (--max-connections)"
	secretSetting      = "AUTH_SECRET (--auth-secret)"
	secretFileSetting  = "AUTH_SECRET_FILE (--auth-secret-file)"
)

// settingName is what errors call a setting: by the variable and by the flag,
// whichever of them it came from.
func settingName(flag *kong.Flag) string {
	if len(flag.Envs) == 0 {
		return "--" + flag.Name
	}
	return flag.Envs[0] + " (--" + flag.Name + ")"
}

// valueName is what errors call a flag or an argument.
func valueName(value *kong.Value) string {
	if value.Flag == nil {
		return strings.ToUpper(value.Name)
	}
	return settingName(value.Flag)
}

// decode hands the given text to parse; its false means that the range tag is
// not kept. What looks like another flag is no value, as in "--loops -5".
func decode(ctx *kong.DecodeContext, parse func(text, allowed string) bool) error {
	allowed := ctx.Value.Tag.Get("range")
	if ctx.Scan.Peek().IsEOL() {
		return &settingError{setting: valueName(ctx.Value), problem: "has no value: allowed is " + allowed}
	}
	token, err := ctx.Scan.PopValue(ctx.Value.Name)
	given := fmt.Sprint(token.Value)
	if err == nil && parse(given, allowed) {
		return nil
	}
	return &settingError{valueName(ctx.Value), strconv.Quote(given), "allowed is " + allowed}
}

// Decode implements kong.MapperValue.
func (c *count) Decode(ctx *kong.DecodeContext) error {
	return decode(ctx, func(given, allowed string) bool {
		low, high := bounds(allowed, strconv.Atoi)
		n, err := strconv.Atoi(given)
		*c = count(n)
		return err == nil && low <= n && n <= high
	})
}

// Decode implements kong.MapperValue.
func (s *span) Decode(ctx *kong.DecodeContext) error {
	return decode(ctx, func(given, allowed string) bool {
		low, high := bounds(allowed, time.ParseDuration)
		d, err := time.ParseDuration(given)
		*s = span(d)
		return err == nil && low <= d && d <= high
	})
}

// Decode implements kong.MapperValue.
func (w *word) Decode(ctx *kong.DecodeContext) error {
	return decode(ctx, func(given, allowed string) bool {
		*w = word(given)
		return slices.Contains(strings.Split(allowed, "/"), given)
	})
}

// IsBool lets the flag stand without a value.
func (t *toggle) IsBool() bool { return true }

// Decode implements kong.MapperValue.
func (t *toggle) Decode(ctx *kong.DecodeContext) error {
	if ctx.Scan.Peek().Type != kong.FlagValueToken {
		*t = true
		return nil
	}
	return decode(ctx, func(given, _ string) bool {
		b, err := strconv.ParseBool(given)
		*t = toggle(b)
		return err == nil
	})
}

// Decode implements kong.MapperValue.
func (h *hostPort) Decode(ctx *kong.DecodeContext) error {
	return decode(ctx, func(given, _ string) bool {
		*h = hostPort(given)
		if given == "" {
			return ctx.Value.Tag.Has("empty")
		}
		_, port, err := net.SplitHostPort(given)
		if err != nil {
			return false
		}
		_, err = strconv.ParseUint(port, 10, 16)
		return err == nil
	})
}

// connectable reports whether others can connect to an address: that it is not
// just what a server listens on.
func (h hostPort) connectable() bool {
	host, port, err := net.SplitHostPort(string(h))
	ip := net.ParseIP(host)
	return err == nil && host != "" && (ip == nil || !ip.IsUnspecified()) && strings.Trim(port, "0") != ""
}

// Decode implements kong.MapperValue.
func (t *text) Decode(ctx *kong.DecodeContext) error {
	return decode(ctx, func(given, _ string) bool {
		*t = text{given: true, value: given}
		return true
	})
}

// bounds splits a range tag. It panics when the tag is no range: a mistake in
// this program, which every start of it would show.
func bounds[T any](allowed string, parse func(string) (T, error)) (low, high T) {
	first, second, ok := strings.Cut(allowed, "..")
	low, err1 := parse(first)
	high, err2 := parse(second)
	if !ok || err1 != nil || err2 != nil {
		panic("not a range: " + allowed)
	}
	return low, high
}
