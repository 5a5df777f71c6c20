package deploy

import (
	"debug/elf"
	"encoding/json"
	"go/version"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

const containerPath = "Containerfile"

func containerFile(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(containerPath)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// instruction is the last instruction of that name in the container file.
func instruction(t *testing.T, name string) string {
	t.Helper()
	all := regexp.MustCompile(`(?m)^`+name+` (.+)$`).FindAllStringSubmatch(containerFile(t), -1)
	if all == nil {
		t.Fatalf("no %s in %s", name, containerPath)
	}
	return all[len(all)-1][1]
}

// The container file builds with a Go that is named to the patch and that the
// module allows, and puts the binary into nothing, for a user by number.
func TestContainerFile(t *testing.T) {
	pinned := regexp.MustCompile(`(?m)^FROM docker\.io/library/golang:(\d+\.\d+\.\d+) AS build$`).FindStringSubmatch(containerFile(t))
	module, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	wanted := regexp.MustCompile(`(?m)^go (\d+\.\d+\.\d+)$`).FindStringSubmatch(string(module))
	if pinned == nil || wanted == nil || version.Compare("go"+pinned[1], "go"+wanted[1]) < 0 {
		t.Errorf("the container is built with Go %v, the module wants %v", pinned, wanted)
	}
	if from := instruction(t, "FROM"); from != "scratch" {
		t.Errorf("the image is made from %s", from)
	}
	if user := instruction(t, "USER"); !regexp.MustCompile(`^[1-9]\d*:[1-9]\d*$`).MatchString(user) {
		t.Errorf("USER is %s: Kubernetes tells root from others by number only", user)
	}
}

// The binary needs no other file: it is run as the image has it, alone in its
// root directory, for the user of the image and with its environment.
func TestBinaryAlone(t *testing.T) {
	f, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("the binary is not static: it has %v", p.Type)
		}
	}
	if os.Getuid() != 0 {
		t.Skip("only root can change the root directory")
	}
	root := t.TempDir()
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(binary, filepath.Join(root, "ticketing")); err != nil {
		t.Fatal(err)
	}
	inside := func(args ...string) *exec.Cmd {
		cmd := exec.Command("/ticketing", args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		cmd.Dir = "/"
		return cmd
	}
	var entry, command, health []string
	for text, into := range map[string]*[]string{
		instruction(t, "ENTRYPOINT"): &entry, instruction(t, "CMD"): &command,
		regexp.MustCompile(`\[.*\]`).FindString(instruction(t, "HEALTHCHECK")): &health,
	} {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	if entry[0] != "/ticketing" || health[0] != "/ticketing" {
		t.Fatalf("the image runs %v, its health is asked of %v", entry, health)
	}
	env := strings.Fields(instruction(t, "ENV"))
	cmd := inside(append(entry[1:], command...)...)
	cmd.Env = append(env, "LISTEN_ADDR=127.0.0.1:0", "ADMIN_ADDR=127.0.0.1:0")
	n := mustStart(t, cmd)
	ask := inside(health[1:]...)
	ask.Env = append(env, "ADMIN_ADDR="+n.admin)
	if out, err := ask.CombinedOutput(); err != nil || !json.Valid(out) {
		t.Errorf("a healthy node: %v\n%s", err, out)
	}
	n.signal(syscall.SIGTERM)
	n.exits(0)
	ask = inside(health[1:]...)
	ask.Env = append(env, "ADMIN_ADDR="+n.admin)
	if err := ask.Run(); err == nil {
		t.Error("a node that has ended is healthy")
	}
}
