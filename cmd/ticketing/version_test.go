package main

import (
	"runtime/debug"
	"testing"

	"ticketing/internal/admin"
)

func TestBuild(t *testing.T) {
	stamped := []debug.BuildSetting{{Key: "vcs.revision", Value: "fff000"}, {Key: "vcs.modified", Value: "true"}}
	clean := []debug.BuildSetting{{Key: "vcs.revision", Value: "fff000"}, {Key: "vcs.modified", Value: "false"}}
	for _, c := range []struct {
		name     string
		linked   admin.Build
		module   string
		settings []debug.BuildSetting
		want     admin.Build
	}{
		{"linker wins", admin.Build{Version: "v1.2.3", Commit: "abc"}, "v9.9.9", stamped, admin.Build{Version: "v1.2.3", Commit: "abc"}},
		{"go install", admin.Build{}, "v1.0.0", clean, admin.Build{Version: "v1.0.0", Commit: "fff000"}},
		{"work tree with changes", admin.Build{}, "(devel)", stamped, admin.Build{Version: "devel", Commit: "fff000+changes"}},
		{"nothing known", admin.Build{}, "", nil, admin.Build{Version: "devel", Commit: "unknown"}},
	} {
		got := complete(c.linked, &debug.BuildInfo{Main: debug.Module{Version: c.module}, Settings: c.settings})
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
