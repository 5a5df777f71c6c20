package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"ticketing/internal/admin"
)

// Set when a release is built: -ldflags "-X main.version=v1.2.3 -X main.commit=abc".
var version, commit string

type versionCmd struct{}

// Run prints what was built from what.
func (versionCmd) Run(p *process) error {
	b := build()
	_, err := fmt.Fprintf(p.stdout, "ticketing %s\ncommit %s\n%s %s/%s\n", b.Version, b.Commit, b.GoVersion, runtime.GOOS, runtime.GOARCH)
	return err
}

// build says what runs: what the linker was told, else what the Go tool noted.
func build() admin.Build {
	b := admin.Build{Version: version, Commit: commit, GoVersion: runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		b = complete(b, info)
	}
	return b
}

func complete(b admin.Build, info *debug.BuildInfo) admin.Build {
	revision, dirty := "", false
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value
		case "vcs.modified":
			dirty = s.Value == "true"
		}
	}
	if b.Commit == "" {
		b.Commit = revision
		if dirty {
			b.Commit += "+changes"
		}
	}
	if b.Version == "" {
		b.Version = info.Main.Version
	}
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "devel"
	}
	if b.Commit == "" {
		b.Commit = "unknown"
	}
	return b
}
