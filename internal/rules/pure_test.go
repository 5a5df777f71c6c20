package rules

import (
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

// pure are the packages in which time is an argument and nothing happens by
// itself, each with what it alone may import.
var pure = map[string][]string{
	"internal/slab": {},
	"lease":         {},
	"codec":         {},
	"auth":          {},
	"shard":         {"sync/atomic"}, // the budgets that all shards share
	"cluster/state": {},
	"cluster/core": {
		"go.etcd.io/raft/v3", "go.etcd.io/raft/v3/raftpb", "go.etcd.io/raft/v3/tracker", // pure themselves
		"google.golang.org/protobuf/proto",
	},
}

var (
	// impureImports, and what lies below them, do I/O, log, lock or are random.
	impureImports = []string{"crypto/rand", "log", "math/rand", "net", "os", "sync", "syscall"}

	// clock are the names of package time that read it or wait.
	clock = []string{"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "NewTimer", "NewTicker", "Tick"}
)

// The pure packages have no clock, no goroutine, no lock, no logger and no I/O.
func TestPurePackages(t *testing.T) {
	hold(t, purePackages, []planted{
		{"lease/x.go", `package lease; import "time"; var x = time.Now()`},
		{"lease/x.go", `package lease; import "time"; var x = time.Now`},
		{"codec/x.go", `package codec; import clock "time"; func f() { clock.Sleep(1) }`},
		{"codec/x.go", `package codec; import . "time"; var x = Now()`},
		{"auth/x.go", `package auth; import "time"; func f(t time.Time) any { return time.Since(t) }`},
		{"auth/x.go", `package auth; import "time"; func f(t time.Time) any { return time.Until(t) }`},
		{"auth/x.go", `package auth; import "time"; var x = time.After(1)`},
		{"shard/x.go", `package shard; import "time"; var x = time.AfterFunc(1, nil)`},
		{"shard/x.go", `package shard; import "time"; var x = time.NewTimer(1)`},
		{"shard/x.go", `package shard; import "time"; var x = time.NewTicker(1)`},
		{"shard/x.go", `package shard; import "time"; var x = time.Tick(1)`},
		{"shard/x.go", `package shard; func f() { go f() }`},
		{"shard/x.go", `package shard; func f() { func() { if true { go f() } }() }`},
		{"shard/x.go", `package shard; import "sync"; var x sync.Mutex`},
		{"shard/x.go", `package shard; import "sync"; var x struct { sync.RWMutex }`},
		{"lease/x.go", `package lease; import _ "sync/atomic"`},
		{"lease/x.go", `package lease; import _ "log"`},
		{"lease/x.go", `package lease; import _ "log/slog"`},
		{"internal/slab/x.go", `package slab; import _ "os"`},
		{"codec/x.go", `package codec; import _ "net"`},
		{"codec/x.go", `package codec; import _ "net/netip"`},
		{"auth/x.go", `package auth; import _ "crypto/rand"`},
		{"shard/x.go", `package shard; import _ "math/rand/v2"`},
		{"shard/x.go", `package shard; import _ "github.com/cespare/xxhash/v2"`},
		{"cluster/state/x.go", `package state; import _ "math/rand/v2"`},
	}, []planted{
		{"lease/x.go", `package lease; import "time"; var x = time.Duration(1); func Now() {}; var y = Now`},
		{"shard/x.go", `package shard; import _ "sync/atomic"`},
		{"shard/x.go", `package shard; import _ "ticketing/lease"`},
		{"auth/x.go", `package auth; import ( _ "crypto/hmac"; _ "crypto/sha256"; _ "crypto/subtle"; _ "io" )`},
		{"loop/x.go", `package loop; import ( "time"; "sync" ); var x = time.Now(); var y sync.Mutex; func f() { go f() }`},
		{"lease/x_test.go", `package lease; import "time"; var x = time.Now()`},
	})
}

func purePackages(tr *tree) (all []violation) {
	for _, dir := range tr.dirs() {
		may, ok := pure[dir]
		if !ok {
			continue
		}
		for _, file := range tr.packages[dir].sources {
			all = append(all, impurities(tr, dir, file, may)...)
		}
	}
	return all
}

func impurities(tr *tree, dir string, file *ast.File, may []string) (all []violation) {
	timeName := ""
	for _, spec := range file.Imports {
		p := importPath(spec)
		switch {
		case p == "time" && spec.Name == nil:
			timeName = "time"
		case p == "time" && spec.Name.Name == ".":
			all = append(all, tr.found(spec, "%s must not hide package time behind a dot", dir))
		case p == "time":
			timeName = spec.Name.Name
		case !slices.Contains(may, p) && isImpure(p):
			all = append(all, tr.found(spec, "%s is pure: it must not import %s", dir, p))
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			all = append(all, tr.found(n, "%s is pure: it must not start a goroutine", dir))
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == timeName && slices.Contains(clock, n.Sel.Name) {
				all = append(all, tr.found(n, "%s is pure: time is an argument, not time.%s", dir, n.Sel.Name))
			}
		}
		return true
	})
	return all
}

// isImpure reports whether an import is one of impureImports, lies below one, or
// is neither of the standard library nor ours.
func isImpure(p string) bool {
	first, _, _ := strings.Cut(p, "/")
	if first != module && strings.Contains(first, ".") {
		return true
	}
	for ; p != "."; p = path.Dir(p) {
		if slices.Contains(impureImports, p) {
			return true
		}
	}
	return false
}
