package deploy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// filter is SystemCallFilter=, RestrictAddressFamilies= and RestrictNamespaces=:
// a call that is not allowed ends the process. (Under the unit it fails with
// EPERM, which a server might get over unnoticed.)
func (c *cell) filter() error {
	const (
		number, argument = 0, 16 // offsets in struct seccomp_data: nr, low half of args[0]
		anyNamespace     = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
			unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET
	)
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	jump := func(how uint16, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | how | unix.BPF_K, Jt: yes, Jf: no, K: k}
	}
	end := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	const allow, kill = unix.SECCOMP_RET_ALLOW, unix.SECCOMP_RET_KILL_PROCESS

	program := []unix.SockFilter{load(number)}
	// socket(2) and socketpair(2): by family.
	for _, call := range []uint32{unix.SYS_SOCKET, unix.SYS_SOCKETPAIR} {
		program = append(program, jump(unix.BPF_JEQ, call, 0, uint8(2*len(c.Domains)+2)), load(argument))
		for _, d := range c.Domains {
			program = append(program, jump(unix.BPF_JEQ, d, 0, 1), end(allow))
		}
		program = append(program, end(kill))
	}
	// clone(2): threads, and no namespace. clone3(2) cannot be looked into: it
	// does not exist, and the runtime does without.
	program = append(program,
		jump(unix.BPF_JEQ, unix.SYS_CLONE, 0, 4), load(argument),
		jump(unix.BPF_JSET, anyNamespace, 0, 1), end(kill), end(allow),
		jump(unix.BPF_JEQ, unix.SYS_CLONE3, 0, 1), end(unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS)))
	for _, call := range c.Calls {
		program = append(program, jump(unix.BPF_JEQ, call, 0, 1), end(allow))
	}
	program = append(program, end(kill))
	bpf := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&bpf)), 0, 0)
}

// allowedCalls are the system calls that the unit allows, by name. The groups
// in it are asked of systemd.
func allowedCalls(t *testing.T, u unit) []string {
	t.Helper()
	groups := callGroups(t)
	var names func(group string) []string
	names = func(entry string) (all []string) {
		if !strings.HasPrefix(entry, "@") {
			return []string{entry}
		}
		if groups[entry] == nil {
			t.Fatalf("systemd knows no group %s", entry)
		}
		for _, e := range groups[entry] {
			all = append(all, names(e)...)
		}
		return all
	}
	allowed := names("@default") // always
	for _, line := range u["SystemCallFilter"] {
		entries, denied := strings.CutPrefix(line, "~")
		for _, e := range strings.Fields(entries) {
			if !denied {
				allowed = append(allowed, names(e)...)
				continue
			}
			gone := names(e)
			allowed = slices.DeleteFunc(allowed, func(name string) bool { return slices.Contains(gone, name) })
		}
	}
	return allowed
}

// callGroups are the groups of system calls that systemd knows.
func callGroups(t *testing.T) map[string][]string {
	t.Helper()
	groups, group := map[string][]string{}, ""
	for line := range strings.Lines(analyze(t, "syscall-filter", "--no-pager")) {
		switch entry := strings.TrimSpace(line); {
		case entry == "" || strings.HasPrefix(entry, "#"):
		case line[0] == '@':
			group = entry
		case line[0] == ' ' && group != "":
			groups[group] = append(groups[group], entry)
		default:
			group = "" // what systemd cannot place is in no group
		}
	}
	return groups
}

// callNumbers are the numbers of system calls here, by name.
func callNumbers(t *testing.T) map[string]uint32 {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/sys").Output()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(strings.TrimSpace(string(out)), "unix", fmt.Sprintf("zsysnum_linux_%s.go", runtime.GOARCH))
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	numbers := map[string]uint32{}
	for _, m := range regexp.MustCompile(`(?m)^\s+SYS_(\w+)\s+= (\d+)$`).FindAllStringSubmatch(string(text), -1) {
		n, err := strconv.ParseUint(m[2], 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		numbers[strings.ToLower(m[1])] = uint32(n)
	}
	return numbers
}
