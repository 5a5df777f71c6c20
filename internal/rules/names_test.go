package rules

import (
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

// Every package says in one place what it is for.
func TestPackageComments(t *testing.T) {
	hold(t, packageComments, []planted{
		{"lease/x.go", "package lease"},
		{"lease/x.go", "// Package leases owns time.\npackage lease"},
		{"lease/x.go", "// Package lease owns time.\n\npackage lease"},
		{"lease/x.go", "// Package lease\npackage lease"},
		{"lease/x_test.go", "// Package lease owns time.\npackage lease"},
		{"cmd/ticketing/x.go", "// Package main is a command.\npackage main"},
	}, []planted{
		{"lease/x.go", "// Package lease owns time.\npackage lease"},
		{"cmd/ticketing/x.go", "// Ticketing is a lock server.\npackage main"},
		{"cmd/ticketing/x.go", "// Command ticketing is a lock server.\npackage main"},
	})

	twice := newTree()
	for _, name := range []string{"lease/x.go", "lease/y.go"} {
		if err := twice.add(name, "// Package lease owns time.\npackage lease"); err != nil {
			t.Fatal(err)
		}
	}
	if len(packageComments(twice)) == 0 {
		t.Error("the rule does not object to two comments for one package")
	}
}

func packageComments(tr *tree) (all []violation) {
	for _, dir := range tr.dirs() {
		p := tr.packages[dir]
		var docs []*ast.File
		for _, file := range p.sources {
			if file.Doc != nil {
				docs = append(docs, file)
			}
		}
		switch {
		case len(docs) == 0:
			file := slices.Concat(p.sources, p.tests)[0]
			all = append(all, tr.found(file, "package %s has no comment", dir))
		case len(docs) > 1:
			all = append(all, tr.found(docs[1], "package %s has a second comment", dir))
		case !opensWell(docs[0], dir):
			all = append(all, tr.found(docs[0].Doc, "the comment of %s does not begin with its name and say what it is", dir))
		}
	}
	return all
}

// opensWell reports whether a package's comment begins as go doc wants it.
func opensWell(file *ast.File, dir string) bool {
	words := strings.Fields(file.Doc.Text())
	if len(words) < 3 {
		return false
	}
	if command := path.Base(dir); file.Name.Name == "main" {
		return strings.EqualFold(words[0], command) || words[0] == "Command" && words[1] == command
	}
	return words[0] == "Package" && words[1] == file.Name.Name
}

// A package is named for what it is about.
func TestPackageNames(t *testing.T) {
	hold(t, packageNames, []planted{
		{"internal/util/x.go", "package util"},
		{"helpers/x.go", "package helpers"},
		{"common/table/x.go", "package table"},
		{"internal/locks/x.go", "package manager"},
	}, []planted{
		{"internal/slab/x.go", "package slab"},
		{"internal/utility/x_test.go", "package utility"},
	})
}

func packageNames(tr *tree) (all []violation) {
	for _, dir := range tr.dirs() {
		p := tr.packages[dir]
		for _, file := range slices.Concat(p.sources, p.tests) {
			for _, name := range append(strings.Split(dir, "/"), file.Name.Name) {
				switch strings.TrimSuffix(name, "s") {
				case "util", "common", "helper", "manager", "misc":
					all = append(all, tr.found(file, "%s says nothing of what the package is about", name))
				}
			}
		}
	}
	return all
}
