package rules

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// anything of the project may be imported by what joins it all.
var anything = []string{"*"}

// mayImport says which packages of the project a package may import. Tests may
// import what they like.
var mayImport = map[string][]string{
	"internal/slab":   {},
	"lease":           {"internal/slab"},
	"codec":           {},
	"auth":            {},
	"shard":           {"lease", "internal/slab"},
	"internal/procs":  {},
	"loop":            {"codec", "auth", "shard", "lease", "internal/slab", "internal/procs"},
	"client":          {"codec", "auth"},
	"client/scripted": {"codec", "auth"},
	"cluster/core":    {"cluster/state", "shard"},
	"cluster":         {"cluster/core", "cluster/state", "shard", "lease"},
	"cluster/state":   {"shard"},
	"cluster/sim":     {}, // tests alone
	"bench":           {"client", "codec", "auth"},
	"internal/admin":  {"loop", "shard", "lease", "internal/procs"},
	"perf/goredis":    {"client"},
	"deploy":          {}, // tests alone, as are the others without sources
	"internal/e2e":    {"internal/transcript"},
	"internal/soak":   {},
	"internal/chaos":  {"client", "codec", "internal/chaos/history"},

	"internal/chaos/history": {},
	"internal/clustertest":   {},
	"internal/chaos/run":     {"internal/chaos"},

	"internal/transcript": {},
	"internal/rules":      {},
	"cmd/ticketing":       anything,

	// Modules of their own.
	"perf/compare":       {"codec", "perf/compare/floor"},
	"perf/compare/floor": {"codec"},
}

// blackBox are packages whose tests, too, may import only what the table says.
var blackBox = []string{"internal/e2e"}

// Imports go one way.
func TestImportDirections(t *testing.T) {
	hold(t, importDirections, []planted{
		{"lease/x.go", `package lease; import _ "ticketing/shard"`},
		{"lease/x.go", `package lease; import _ "ticketing"`},
		{"codec/x.go", "package codec; import _ `ticketing/lease`"},
		{"internal/slab/x.go", `package slab; import _ "ticketing/lease"`},
		{"shard/x.go", `package shard; import _ "ticketing/codec"`},
		{"client/x.go", `package client; import _ "ticketing/client/scripted"`},
		{"loop/x.go", `package loop; import _ "ticketing/internal/admin"`},
		{"internal/e2e/x_test.go", `package e2e; import _ "ticketing/codec"`},
		{"spool/x.go", `package spool`},
		{"spool/x_test.go", `package spool`},
	}, []planted{
		{"lease/x.go", `package lease; import _ "ticketing/internal/slab"`},
		{"lease/x_test.go", `package lease; import _ "ticketing/shard"`},
		{"loop/x.go", `package loop; import _ "ticketing/shard"`},
		{"codec/x.go", `package codec; import _ "ticketingmachine/lease"`},
		{"cmd/ticketing/x.go", `package main; import _ "ticketing/internal/admin"`},
	})
}

func importDirections(tr *tree) (all []violation) {
	for _, dir := range tr.dirs() {
		p := tr.packages[dir]
		files := p.sources
		may, known := mayImport[dir]
		if !known {
			file := slices.Concat(p.sources, p.tests)[0]
			all = append(all, tr.found(file, "package %s is not in the table of imports", dir))
			continue
		}
		if slices.Contains(blackBox, dir) {
			files = slices.Concat(p.sources, p.tests)
		}
		for spec := range imports(files) {
			ours, ok := strings.CutPrefix(importPath(spec)+"/", module+"/")
			ours = strings.TrimSuffix(ours, "/")
			if ok && !slices.Contains(may, ours) && !slices.Contains(may, "*") {
				all = append(all, tr.found(spec, "%s must not import %s", dir, importPath(spec)))
			}
		}
	}
	return all
}

// knowGnet are the one package that knows the network engine, and what is measured
// beside it.
var knowGnet = []string{"loop", "perf/compare/floor"}

// One package knows the network engine, so that it can be exchanged.
func TestOnlyLoopKnowsGnet(t *testing.T) {
	hold(t, onlyLoopKnowsGnet, []planted{
		{"shard/x.go", `package shard; import _ "github.com/panjf2000/gnet/v2"`},
		{"cmd/ticketing/x.go", `package main; import _ "github.com/panjf2000/gnet/v2/pkg/logging"`},
	}, []planted{
		{"loop/x.go", `package loop; import _ "github.com/panjf2000/gnet/v2"`},
		{"shard/x.go", `package shard; import _ "fmt"`},
	})
}

func onlyLoopKnowsGnet(tr *tree) (all []violation) {
	for _, dir := range tr.dirs() {
		if slices.Contains(knowGnet, dir) {
			continue
		}
		for spec := range imports(tr.packages[dir].sources) {
			if strings.HasPrefix(importPath(spec), "github.com/panjf2000/gnet/") {
				all = append(all, tr.found(spec, "only loop may import gnet"))
			}
		}
	}
	return all
}

// imports yields every import of the files.
func imports(files []*ast.File) func(yield func(*ast.ImportSpec) bool) {
	return func(yield func(*ast.ImportSpec) bool) {
		for _, file := range files {
			for _, spec := range file.Imports {
				if !yield(spec) {
					return
				}
			}
		}
	}
}
