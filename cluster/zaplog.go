package cluster

import (
	"context"
	"fmt"
	"log/slog"

	"go.etcd.io/raft/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// etcd's packages log through zap. bridge hands what they log to slog.
type bridge struct {
	to *slog.Logger
}

// newZap returns a zap logger that logs to a slog logger. What zap calls
// info is of interest to those who look into a fault only, so it becomes debug.
func newZap(to *slog.Logger) *zap.Logger { return zap.New(&bridge{to}) }

// hushed makes everything debug. The connections between nodes warn several
// times a second of a node that is down; links says it once.
type hushed struct{ slog.Handler }

// Enabled is part of slog.Handler.
func (h hushed) Enabled(ctx context.Context, _ slog.Level) bool {
	return h.Handler.Enabled(ctx, slog.LevelDebug)
}

// Handle is part of slog.Handler.
func (h hushed) Handle(ctx context.Context, r slog.Record) error {
	r.Level = slog.LevelDebug
	return h.Handler.Handle(ctx, r)
}

// WithAttrs is part of slog.Handler.
func (h hushed) WithAttrs(attrs []slog.Attr) slog.Handler { return hushed{h.Handler.WithAttrs(attrs)} }

// WithGroup is part of slog.Handler.
func (h hushed) WithGroup(name string) slog.Handler { return hushed{h.Handler.WithGroup(name)} }

var levels = map[zapcore.Level]slog.Level{
	zapcore.DebugLevel: slog.LevelDebug,
	zapcore.InfoLevel:  slog.LevelDebug,
	zapcore.WarnLevel:  slog.LevelWarn,
}

func slogLevel(l zapcore.Level) slog.Level {
	if level, ok := levels[l]; ok {
		return level
	}
	return slog.LevelError
}

// Enabled is part of zapcore.Core.
func (b *bridge) Enabled(l zapcore.Level) bool {
	return b.to.Enabled(context.Background(), slogLevel(l))
}

// With is part of zapcore.Core.
func (b *bridge) With(fields []zapcore.Field) zapcore.Core {
	return &bridge{b.to.With(attrs(fields)...)}
}

// Check is part of zapcore.Core.
func (b *bridge) Check(e zapcore.Entry, c *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if b.Enabled(e.Level) {
		return c.AddCore(e, b)
	}
	return c
}

// Write is part of zapcore.Core.
func (b *bridge) Write(e zapcore.Entry, fields []zapcore.Field) error {
	b.to.Log(context.Background(), slogLevel(e.Level), e.Message, attrs(fields)...)
	return nil
}

// Sync is part of zapcore.Core.
func (b *bridge) Sync() error { return nil }

func attrs(fields []zapcore.Field) []any {
	enc := zapcore.NewMapObjectEncoder()
	all := make([]any, 0, 2*len(fields))
	for _, f := range fields {
		f.AddTo(enc)
		all = append(all, f.Key, enc.Fields[f.Key])
	}
	return all
}

// raftLog hands what package raft logs to slog.
type raftLog struct {
	to *slog.Logger
}

var _ raft.Logger = raftLog{}

func (l raftLog) log(level slog.Level, text func() string) {
	if ctx := context.Background(); l.to.Enabled(ctx, level) {
		l.to.Log(ctx, level, text())
	}
}

func (l raftLog) print(level slog.Level, v []any) {
	l.log(level, func() string { return fmt.Sprint(v...) })
}

func (l raftLog) printf(level slog.Level, format string, v []any) {
	l.log(level, func() string { return fmt.Sprintf(format, v...) })
}

func (l raftLog) Debug(v ...any)                   { l.print(slog.LevelDebug, v) }
func (l raftLog) Debugf(format string, v ...any)   { l.printf(slog.LevelDebug, format, v) }
func (l raftLog) Info(v ...any)                    { l.print(slog.LevelDebug, v) }
func (l raftLog) Infof(format string, v ...any)    { l.printf(slog.LevelDebug, format, v) }
func (l raftLog) Warning(v ...any)                 { l.print(slog.LevelInfo, v) }
func (l raftLog) Warningf(format string, v ...any) { l.printf(slog.LevelInfo, format, v) }
func (l raftLog) Error(v ...any)                   { l.print(slog.LevelError, v) }
func (l raftLog) Errorf(format string, v ...any)   { l.printf(slog.LevelError, format, v) }

// Fatal and Panic are about a log that contradicts itself. The node's goroutine
// recovers the panic and stops the node.
func (l raftLog) Fatal(v ...any)                 { l.Panic(v...) }
func (l raftLog) Fatalf(format string, v ...any) { l.Panicf(format, v...) }
func (l raftLog) Panic(v ...any)                 { panic(fmt.Sprint(v...)) }
func (l raftLog) Panicf(format string, v ...any) { panic(fmt.Sprintf(format, v...)) }
