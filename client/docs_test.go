package client_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"ticketing/client/scripted"
)

// TestClient_DocumentedProgramRuns builds the first program of docs/client.md
// as it stands there, and runs it against a server.
func TestClient_DocumentedProgramRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds a program")
	}
	doc, err := os.ReadFile(filepath.Join("..", "docs", "client.md"))
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```go\n(package main\n.*?)```").FindSubmatch(doc)
	if block == nil {
		t.Fatal("docs/client.md has no program")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := scripted.New()
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	defer func() {
		l.Close()
		<-served
		srv.Close()
	}()
	const documented = "127.0.0.1:7400"
	if !strings.Contains(string(block[1]), documented) {
		t.Fatalf("the program does not connect to %s", documented)
	}
	file := filepath.Join(t.TempDir(), "main.go")
	program := strings.Replace(string(block[1]), documented, l.Addr().String(), 1)
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "run", file).CombinedOutput()
	if err != nil || string(out) != "working under token 1\n" {
		t.Fatalf("%v\n%s", err, out)
	}
	if srv.Held("nightly-report") != 0 {
		t.Fatal("it has not released the key")
	}
}
