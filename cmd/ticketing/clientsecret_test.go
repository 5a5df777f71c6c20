package main

import (
	"strings"
	"testing"
)

// A client answers the challenge with the secret it has: the first one of its
// file, which is the one that every node knows while secrets are replaced.
func TestClientSecrets(t *testing.T) {
	t.Parallel() // it waits more than it works
	dir := t.TempDir()
	writeFile(t, dir+"/old", "  s3cret one \n")
	writeFile(t, dir+"/both", "\n \t\n  s3cret one \nnew\n")
	writeFile(t, dir+"/new", "new\n")
	s := start(t, command(t, nil, "--auth-secret-file="+dir+"/old"))
	cases := []struct {
		name    string
		environ []string
		flags   []string
		code    int
		says    string
	}{
		{"a file", nil, []string{"--secret-file=" + dir + "/old"}, exitDone, ""},
		{"a file by its variable", []string{"AUTH_SECRET_FILE=" + dir + "/old"}, nil, exitDone, ""},
		{"a file of several", nil, []string{"--secret-file=" + dir + "/both"}, exitDone, ""},
		{"a variable", []string{"AUTH_SECRET=  s3cret one "}, nil, exitDone, ""},
		{"another one", nil, []string{"--secret-file=" + dir + "/new"}, exitNoSession, "auth_failed"},
		{"none", nil, nil, exitNoSession, "no secret is configured"},
	}
	var all []*running
	for _, c := range cases {
		args := append([]string{"acquire", strings.ReplaceAll(c.name, " ", "-"), "--wait=3s"}, c.flags...)
		all = append(all, launch(t, clientCommand(s, c.environ, args...)))
	}
	for i, c := range cases {
		_, stderr := all[i].exits(c.code)
		if c.code == exitDone && stderr != "" || c.code != exitDone && strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, c.says) {
			t.Errorf("%s: stderr %q", c.name, stderr)
		}
		if strings.Contains(stderr, "s3cret") {
			t.Errorf("%s: the secret is told: %q", c.name, stderr)
		}
	}
	open := start(t, command(t, nil))
	_, stderr := launch(t, clientCommand(open, []string{"AUTH_SECRET=x"}, "acquire", "k", "--wait=0s")).exits(exitNoSession)
	if !strings.Contains(stderr, "a secret is configured and the server sends no challenge") {
		t.Errorf("a secret that nobody asks for: stderr %q", stderr)
	}
}
