package rules

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "ticketing"

// root is the project's directory as seen from this one.
const root = "../.."

// A tree is the project's source, or planted source.
type tree struct {
	files    *token.FileSet
	packages map[string]*pkg // by directory, such as internal/slab
}

type pkg struct {
	sources []*ast.File
	tests   []*ast.File
}

// A rule returns its violations.
type rule func(*tree) []violation

type violation struct {
	where token.Position
	what  string
}

func newTree() *tree {
	return &tree{files: token.NewFileSet(), packages: map[string]*pkg{}}
}

// add parses a file; src is nil for one on disk.
func (tr *tree) add(name string, src any) error {
	from := name
	if src == nil {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return err
		}
		src = data
	}
	file, err := parser.ParseFile(tr.files, from, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	p := tr.packages[path.Dir(name)]
	if p == nil {
		p = &pkg{}
		tr.packages[path.Dir(name)] = p
	}
	if strings.HasSuffix(name, "_test.go") {
		p.tests = append(p.tests, file)
	} else {
		p.sources = append(p.sources, file)
	}
	return nil
}

func (tr *tree) found(node ast.Node, format string, args ...any) violation {
	return violation{tr.files.Position(node.Pos()), fmt.Sprintf(format, args...)}
}

// project is the source of the project, every file whatever its build tags.
var project = sync.OnceValues(func() (*tree, error) {
	tr := newTree()
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() != "." && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		return tr.add(name, nil)
	})
	return tr, err
})

// A planted file is source made up for a test.
type planted struct{ name, src string }

// hold checks that the project keeps a rule, and the rule itself: it must object
// to each of the bad files, and to none of the good ones.
func hold(t *testing.T, r rule, bad, good []planted) {
	t.Helper()
	tr, err := project()
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"lease", "internal/slab", "internal/rules"} {
		if tr.packages[dir] == nil {
			t.Fatalf("%s is not in the source that was read", dir)
		}
	}
	for _, v := range r(tr) {
		t.Errorf("%v: %s", v.where, v.what)
	}
	for _, file := range bad {
		if len(r(plant(t, file))) == 0 {
			t.Errorf("the rule does not object to %s:\n%s", file.name, file.src)
		}
	}
	for _, file := range good {
		for _, v := range r(plant(t, file)) {
			t.Errorf("the rule objects to what is right: %s\n%v: %s", file.src, v.where, v.what)
		}
	}
}

func plant(t *testing.T, file planted) *tree {
	t.Helper()
	tr := newTree()
	if err := tr.add(file.name, file.src); err != nil {
		t.Fatalf("planted: %v", err)
	}
	return tr
}

// dirs returns the directories of the packages in order.
func (tr *tree) dirs() []string {
	var all []string
	for dir := range tr.packages {
		all = append(all, dir)
	}
	slices.Sort(all)
	return all
}

// importPath returns what an import imports.
func importPath(spec *ast.ImportSpec) string { return strings.Trim(spec.Path.Value, "`\"") }
