package clustertest

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"ticketing/internal/transcript"
)

const localScript = "../../deploy/cluster/local.sh"

// The quick start as a user has it: one command starts three nodes, what it
// prints works as it is printed, a node that was killed comes back, and Ctrl-C
// ends them all.
func TestQuickStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	env := append(os.Environ(), "BIN="+binary, "DIR="+dir, fmt.Sprintf("NET=127.%d.%d", 1+rand.IntN(250), rand.IntN(250)))
	cmd := exec.Command(localScript)
	cmd.Env = env
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	errs := &transcript.Buffer{}
	cmd.Stderr = errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
		if t.Failed() {
			t.Log(errs)
		}
	}()
	in := bufio.NewScanner(out)
	var told, commands []string
	for in.Scan() && !strings.HasPrefix(in.Text(), "Ctrl-C") {
		told = append(told, in.Text())
		if command, ok := strings.CutPrefix(in.Text(), "  "); ok {
			commands = append(commands, command)
		}
	}
	if len(commands) != 4 {
		t.Fatalf("it told of %d commands: %q\n%s", len(commands), told, errs)
	}
	for i, want := range []string{" leads, term ", "token 1\n", "handed over", "granted"} {
		command := strings.NewReplacer("sleep 5", "true", "--duration=5s", "--ops=200 --warmup=0s").Replace(commands[i])
		got, err := exec.Command("sh", "-c", command).CombinedOutput()
		if err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%s: %v\n%s", command, err, got)
		}
	}

	pid := regexp.MustCompile(`n2: process (\d+),`).FindStringSubmatch(strings.Join(told, "\n"))
	if pid == nil {
		t.Fatalf("no process of n2: %q", told)
	}
	if err := exec.Command("kill", "-9", pid[1]).Run(); err != nil {
		t.Fatal(err)
	}
	again := exec.Command(localScript, "n2")
	again.Env = env
	again.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log := &transcript.Buffer{}
	again.Stderr = log
	if err := again.Start(); err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t}
	c.until("n2 is back", func() bool { return strings.Contains(log.String(), `msg="a leader is known"`) })
	again.Process.Signal(syscall.SIGTERM)
	if err := again.Wait(); err != nil {
		t.Errorf("n2: %v\n%s", err, log)
	}

	cmd.Process.Signal(syscall.SIGINT)
	last := ""
	for in.Scan() {
		last = in.Text()
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(last, "all nodes have ended") {
		t.Errorf("%v, the last line is %q", err, last)
	}
	if err := exec.Command("kill", "-0", pid[1]).Run(); err == nil {
		t.Errorf("process %s is still there", pid[1])
	}
}

var (
	composeSetting = regexp.MustCompile(`^ +([A-Z_]+): (.+)$`)
	composeService = regexp.MustCompile(`^  (n\d):$`)
	composeVolume  = regexp.MustCompile(`^ +- \./(\S+):(/\S+):ro$`)
)

// The settings of the containers are right, with the certificates that the
// example makes.
func TestCompose(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../deploy/cluster/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	make := regexp.MustCompile(`ticketing (certs .*)\n`).FindStringSubmatch(string(text))
	if make == nil {
		t.Fatal("no ticketing certs in it")
	}
	c := &cluster{t: t}
	c.command(0, append(strings.Fields(make[1]), "--dir="+filepath.Join(dir, "certs"))...)
	if err := os.WriteFile(filepath.Join(dir, "secrets"), []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	shared, services := map[string]string{}, map[string]map[string]string{}
	files := map[string]map[string]string{} // by service: path in the container → file here
	service := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if m := composeService.FindStringSubmatch(line); m != nil {
			service = m[1]
			services[service], files[service] = map[string]string{}, map[string]string{}
		} else if m := composeSetting.FindStringSubmatch(line); m != nil && service == "" {
			shared[m[1]] = m[2]
		} else if m != nil {
			services[service][m[1]] = m[2]
		} else if m := composeVolume.FindStringSubmatch(line); m != nil {
			files[service][m[2]] = filepath.Join(dir, m[1])
		}
	}
	if len(services) != 3 || len(shared) < 8 {
		t.Fatalf("%d services with %d settings in common", len(services), len(shared))
	}
	for name, own := range services {
		cmd := exec.Command(binary, "serve", "--check")
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0"}
		for _, settings := range []map[string]string{shared, own} {
			for key, value := range settings {
				if file, ok := files[name][value]; ok {
					value = file
				}
				cmd.Env = append(cmd.Env, key+"="+value)
			}
		}
		if out, err := cmd.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "ok:") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		if own["CLUSTER_NODE_ID"] != name {
			t.Errorf("%s has CLUSTER_NODE_ID=%s", name, own["CLUSTER_NODE_ID"])
		}
	}
}
