package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// certs runs ticketing certs in this process.
func certs(t *testing.T, dir string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	p := &process{stdout: &out, stderr: &errs}
	code = p.main(t.Context(), append([]string{"certs", "--dir=" + dir}, args...))
	return out.String(), errs.String(), code
}

func madePair(t *testing.T, dir, name string) tls.Certificate {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key"))
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func madePool(t *testing.T, dir, name string) *x509.CertPool {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name+".crt"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		t.Fatalf("no certificate in %s", data)
	}
	return pool
}

// shake does a mutual handshake over a real connection, and returns what either
// side says to it.
func shake(t *testing.T, server, client *tls.Config) (serverErr, clientErr error) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	result := make(chan error, 1)
	go func() {
		conn, err := ln.Accept()
		if err == nil {
			defer conn.Close()
			_, err = tls.Server(conn, server).Write([]byte("hello"))
		}
		result <- err
	}()
	conn, err := tls.Dial("tcp", ln.Addr().String(), client)
	if err == nil {
		defer conn.Close()
		_, err = io.ReadFull(conn, make([]byte, 5))
	}
	return <-result, err
}

func TestCertificatesAreOfUse(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "certs")
	stdout, stderr, code := certs(t, dir, "n1=127.0.0.1,n1.example", "n2=n2.example", "--server=n1=127.0.0.1", "--client=app", "--valid=48h")
	if code != 0 || stderr != "" || strings.Count(stdout, "\n") != 6 || !strings.Contains(stdout, "n1.{crt,key}: node n1 at 127.0.0.1, n1.example, valid until ") {
		t.Fatalf("%d %s%s", code, stdout, stderr)
	}
	nodes, clients := madePool(t, dir, nodesCA), madePool(t, dir, clientsCA)
	node := func(name, host string) (server, client *tls.Config) {
		pair := []tls.Certificate{madePair(t, dir, name)}
		return &tls.Config{Certificates: pair, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: nodes},
			&tls.Config{Certificates: pair, RootCAs: nodes, ServerName: host}
	}
	n1, toN1 := node("n1", "n1.example")
	n2, toN2 := node("n2", "n2.example")
	_, toN1ByAddress := node("n2", "127.0.0.1")
	_, toN1Elsewhere := node("n2", "127.0.0.2")
	app := []tls.Certificate{madePair(t, dir, "app-client")}
	port := &tls.Config{Certificates: []tls.Certificate{madePair(t, dir, "n1-server")}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients}
	for name, c := range map[string]struct {
		server, client *tls.Config
		ok             bool
	}{
		"node to node":                         {n1, toN1, true},
		"node to another":                      {n2, toN2, true},
		"by address":                           {n1, toN1ByAddress, true},
		"at another host":                      {n1, toN1Elsewhere, false},
		"a client to a node":                   {n1, &tls.Config{Certificates: app, RootCAs: nodes, ServerName: "n1.example"}, false},
		"without a certificate to a node":      {n1, &tls.Config{RootCAs: nodes, ServerName: "n1.example"}, false},
		"a client to a client port":            {port, &tls.Config{Certificates: app, RootCAs: clients}, true},
		"a node to a client port":              {port, &tls.Config{Certificates: n1.Certificates, RootCAs: clients}, false},
		"a server's certificate shown":         {port, &tls.Config{Certificates: port.Certificates, RootCAs: clients}, false},
		"a client that trusts the nodes' only": {port, &tls.Config{Certificates: app, RootCAs: nodes}, false},
	} {
		serverErr, clientErr := shake(t, c.server, c.client)
		if ok := serverErr == nil && clientErr == nil; ok != c.ok {
			t.Errorf("%s: %v, %v", name, serverErr, clientErr)
		}
	}
	leaf, err := x509.ParseCertificate(n1.Certificates[0].Certificate[0])
	if left := time.Until(leaf.NotAfter); err != nil || left > 48*time.Hour || left < 47*time.Hour {
		t.Errorf("valid for %v, %v", left, err)
	}
}

func TestKeysAreForTheirOwnerOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	if _, stderr, code := certs(t, dir, "n1=h", "--client=c"); code != 0 {
		t.Fatal(stderr)
	}
	keys := 0
	for _, file := range glob(t, dir) {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		want := os.FileMode(0o644)
		if strings.HasSuffix(file, ".key") {
			want = 0o600
			keys++
		}
		if info.Mode() != want {
			t.Errorf("%s has mode %v", file, info.Mode())
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 || keys != 4 {
		t.Errorf("%v %v, %d keys", info.Mode(), err, keys)
	}
}

func glob(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// What is there stays, and of a command that fails nothing stays.
func TestCertificatesReplaceNothing(t *testing.T) {
	dir := t.TempDir()
	if _, stderr, code := certs(t, dir, "n1=h1"); code != 0 {
		t.Fatal(stderr)
	}
	before := contents(t, dir)
	for says, args := range map[string][]string{
		"n1.crt is there already and is not replaced": {"n2=h2", "n1=h1"},
		"n2.crt would be made twice":                  {"n2=h2", "n2=h3"},
		"nodes-ca.crt would be made twice":            {"nodes-ca=h2"},
		"its authority is only until":                 {"--valid=87600h", "--client=c", "n2=h2"},
		"allowed is NAME=HOST,HOST...":                {"n2"},
		"nothing is asked for":                        {},
		`--valid is "59m": allowed is 1h..87600h`:     {"--valid=59m", "n2=h2"},
	} {
		_, stderr, code := certs(t, dir, args...)
		if code == 0 || !strings.Contains(stderr, says) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v: %d %s", args, code, stderr)
		}
		if after := contents(t, dir); after != before {
			t.Errorf("%v: changed what is there:\n%s", args, after)
		}
	}
	if stdout, stderr, code := certs(t, dir, "n2=h2"); code != 0 || strings.Contains(stdout, "authority") {
		t.Errorf("the authority is not used again: %s%s", stdout, stderr)
	}
	if err := os.Remove(filepath.Join(dir, nodesCA+".key")); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := certs(t, dir, "n3=h3"); code != exitEnvironment || !strings.Contains(stderr, "only one is there") {
		t.Errorf("%d %s", code, stderr)
	}
}

func contents(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	for _, file := range glob(t, dir) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString(file + "\n" + string(data))
	}
	return all.String()
}

func TestNamesAndHostsOfCertificates(t *testing.T) {
	for given, ok := range map[string]bool{
		"n1=h": true, "N-1_x.y=h": true, "n1=10.0.0.1,::1,a.b.c": true, strings.Repeat("n", 64) + "=h": true,
		strings.Repeat("n", 65) + "=h": false, "=h": false, "n1=": false, "n1=h,": false, "../n1=h": false, "n/1=h": false,
		".n1=h": false, "-n1=h": false, "n 1=h": false, "n1=h:7402": false, "n1=-h": false, "n1=h..x": false, "n1=[::1]": false,
		"n1=" + strings.Repeat("h", 63): true, "n1=" + strings.Repeat("h", 64): false, "nö=h": false,
	} {
		dir := t.TempDir()
		_, _, code := certs(t, dir, "--", given)
		if (code == 0) != ok || code != 0 && code != exitSetting {
			t.Errorf("%s: exit %d", given, code)
		}
		if files := glob(t, dir); (len(files) != 0) != ok {
			t.Errorf("%s: made %v", given, files)
		}
	}
}

// A directory that cannot be written to is said to be so.
func TestCertificatesWithoutAPlace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	writeFile(t, file, "")
	if _, stderr, code := certs(t, file, "n1=h"); code != exitEnvironment || !strings.Contains(stderr, file) {
		t.Errorf("%d %s", code, stderr)
	}
	_, err := loadIssuer(file, file)
	if err == nil || errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
