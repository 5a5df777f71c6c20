package main

import (
	"io"
	"log/slog"
)

// newLogger makes the process's logger. The level and format were checked as
// settings.
func newLogger(w io.Writer, level, format string) *slog.Logger {
	options := &slog.HandlerOptions{}
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err == nil {
		options.Level = l
	}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
