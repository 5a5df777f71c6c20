package rules

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// Nothing that lets somebody in, or release a lock, goes into a log: no secret,
// no digest, no token. Who reads the log need not be who may do either.
func TestLogsTellNoSecrets(t *testing.T) {
	hold(t, logsTellNoSecrets, []planted{
		{"loop/x.go", `package loop; func f() { log.Warn("x", "token", 5) }`},
		{"loop/x.go", `package loop; func f() { srv.log.Warn("x", "id", r.Token) }`},
		{"client/x.go", `package client; func f() { c.log.Info("x", "id", t.token) }`},
		{"client/x.go", `package client; func f() { slog.Error("x", "id", string(secret)) }`},
		{"client/x.go", `package client; func f() { l.log.Log(ctx, level, "x", "id", theSecret) }`},
		{"cmd/ticketing/x.go", `package main; func f() { n.log.Debug("x", "nonce", 1) }`},
		{"cmd/ticketing/x.go", `package main; func f() { n.log.DebugContext(ctx, "x", slog.Any("y", s.digest[:])) }`},
	}, []planted{
		{"loop/x.go", `package loop; func f() { log.Warn("x", "key", key); g("token", 5) }`},
		{"cmd/ticketing/x.go", `package main; func f() { n.log.Info("reload: secrets were read again", "secrets", secrets.Len()) }`},
		{"loop/x_test.go", `package loop; func f() { log.Warn("x", "token", 5) }`},
	})
}

func logsTellNoSecrets(tr *tree) (all []violation) {
	for _, dir := range tr.dirs() {
		for _, file := range tr.packages[dir].sources {
			ast.Inspect(file, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || !logs(call) {
					return true
				}
				for _, arg := range call.Args {
					if word := telling(arg); word != "" {
						all = append(all, tr.found(arg, "a log must not tell %s", word))
					}
				}
				return true
			})
		}
	}
	return all
}

// logs reports whether a call writes to a log: a method of slog's, of something
// that is called log or slog.
func logs(call *ast.CallExpr) bool {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	name := strings.TrimSuffix(method.Sel.Name, "Context")
	if !slices.Contains([]string{"Debug", "Info", "Warn", "Error", "Log", "LogAttrs"}, name) {
		return false
	}
	switch x := method.X.(type) {
	case *ast.Ident:
		return strings.HasSuffix(strings.ToLower(x.Name), "log") || strings.HasSuffix(x.Name, "ogger")
	case *ast.SelectorExpr:
		return strings.HasSuffix(strings.ToLower(x.Sel.Name), "log") || strings.HasSuffix(x.Sel.Name, "ogger")
	}
	return false
}

// telling returns what an argument tells that it must not: a name in it, or the
// name of a field. How many there are may be told.
func telling(arg ast.Expr) (word string) {
	ast.Inspect(arg, func(n ast.Node) bool {
		name := ""
		switch n := n.(type) {
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Len" {
				return false
			}
		case *ast.Ident:
			name = n.Name
		case *ast.BasicLit:
			if text := strings.Trim(n.Value, "`\""); !strings.Contains(text, " ") {
				name = text
			}
		}
		for _, bad := range []string{"token", "secret", "digest", "nonce"} {
			if strings.HasSuffix(strings.ToLower(name), bad) {
				word = name
			}
		}
		return true
	})
	return word
}
